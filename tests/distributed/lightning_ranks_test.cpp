// Cases of Lightning's own tests on two ranks, which give the numbers of one process, computed here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "distributed/rank_run.h"

using levin::test::RankRun;

TEST_CASE("values of two ranks are reduced as each metric says, of steps and epochs, in training and validation") {
  const RankRun run("lightning", "logs", 2);
  REQUIRE(run.outcome.ok());
  // Rank r logs 1, 2, 3 times r + 1.
  for (const std::string stage : {"train", "val"}) {
    run.check_everywhere("metric:" + stage + "_mean", (1 + 2 + 3) * (1 + 2) / 6.0);
    run.check_everywhere("metric:" + stage + "_sum", (1 + 2 + 3) * (1 + 2));
    run.check_everywhere("metric:" + stage + "_min", 1);
    run.check_everywhere("metric:" + stage + "_max", 6);
  }
  run.check_everywhere("metric:train_mean_step", (3 + 6) / 2.0);
  run.check_everywhere("metric:train_sum_step", 3 + 6);
  run.check_everywhere("metric:train_min_step", 3);
  run.check_everywhere("metric:train_max_step", 6);
}

namespace {

double score_of(int sample) { return sample * 0.37 - std::floor(sample * 0.37); }
bool label_of(int sample) { return sample % 3 == 0; }

double accuracy_of(int samples) {
  double right = 0;
  for (int sample = 0; sample < samples; ++sample) right += (score_of(sample) > 0.5) == label_of(sample) ? 1 : 0;
  return right / samples;
}

/// The share of pairs of a sample with the label and one without that the scores put in order.
double area_of(int samples) {
  double ordered = 0, pairs = 0;
  for (int one = 0; one < samples; ++one) {
    for (int other = 0; other < samples; ++other) {
      if (!label_of(one) || label_of(other)) continue;
      ++pairs;
      ordered += score_of(one) > score_of(other) ? 1 : score_of(one) == score_of(other) ? 0.5 : 0;
    }
  }
  return ordered / pairs;
}

}  // namespace

TEST_CASE("metric objects in pairs, logged for steps and epochs in both stages, are exact on ranks with other batches") {
  const int ranks = GENERATE(1, 2);
  const int samples = GENERATE(17, 24);
  const RankRun run("lightning", "pairs", ranks, {"samples=" + std::to_string(samples)});
  REQUIRE(run.outcome.ok());
  for (const std::string name : {"_acc", "_acc_epoch"}) {
    run.check_everywhere("metric:train" + name, accuracy_of(samples));
    run.check_everywhere("metric:val" + name, accuracy_of(13));
  }
  for (const std::string name : {"_auroc", "_auroc_epoch"}) {
    run.check_everywhere("metric:train" + name, area_of(samples));
    run.check_everywhere("metric:val" + name, area_of(13));
  }
}

TEST_CASE("two optimizers in turns, which gather gradients over batches and clip them, train on ranks as on one process") {
  // See lightning_manual_test.
  double g = 1, d = 0.5, g_rate = 1, d_rate = 1, sum = 0;
  for (int epoch = 0; epoch < 3; ++epoch, g_rate /= 2) {
    for (int x = 1; x <= 4; ++x) {
      sum += x - g * x / 2;
      if (x % 2 == 0) d -= d_rate * std::clamp(sum, -5.0, 5.0), sum = 0, d_rate /= 2;
      const double slope = -d * x;
      g -= g_rate * (std::abs(slope) > 4 ? 4 * slope / std::abs(slope) : slope);
    }
  }
  const int ranks = GENERATE(1, 2);
  const RankRun run("lightning", "game", ranks);
  REQUIRE(run.outcome.ok());
  for (const auto& facts : run.by_rank) CHECK(std::stod(facts.at("weight").back()) == Approx(g).epsilon(1e-5));
  run.check_everywhere("step", 12 + 6);
  CHECK(d_rate == std::pow(0.5, 6));
}

TEST_CASE("a metric that gets worse on one rank stops all in one epoch") {
  const RankRun run("lightning", "stops", 2);
  REQUIRE(run.outcome.ok());
  run.check_everywhere("epoch", 3);  // of epoch 2 the mean is 6, after 4
  run.check_everywhere("step", 6);
  run.check_everywhere("metric:abc", 6);
}

TEST_CASE("ranks validate after the same batches across epochs of streams that differ in length") {
  const RankRun run("lightning", "interval", 2);
  REQUIRE(run.outcome.ok());
  for (const auto& facts : run.by_rank) CHECK(facts.at("validated").back() == "3,6,9,12,");
}

TEST_CASE("accumulation by epochs gives ranks the mean of each window, a short one too") {
  const RankRun run("lightning", "accumulates", 2);
  REQUIRE(run.outcome.ok());
  // The means over ranks are 1.5 to 5.5: windows of two, two and one in two epochs, and each by itself in the third.
  run.check_everywhere("weight", -2 * (2.0 + 4.0 + 5.5) - (1.5 + 2.5 + 3.5 + 4.5 + 5.5));
  run.check_everywhere("step", 3 + 3 + 5);
}

TEST_CASE("whatever turns optimizers take, ranks come to the weights of one process") {
  const int seed = GENERATE(0, 20);
  const std::vector<std::string> settings{"seed=" + std::to_string(seed), "seeds=20"};
  const RankRun one("lightning", "turns", 1, settings), two("lightning", "turns", 2, settings);
  REQUIRE(one.outcome.ok());
  REQUIRE(two.outcome.ok());
  const std::vector<double> expected = levin::test::numbers_in(one.text(0, "weights"));
  REQUIRE(expected.size() == 60);
  for (const std::size_t rank : {0, 1}) {
    const std::vector<double> found = levin::test::numbers_in(two.text(rank, "weights"));
    REQUIRE(found.size() == expected.size());
    for (std::size_t at = 0; at < found.size(); ++at) {
      INFO("weight " << at % 3 << " of seed " << seed + static_cast<int>(at / 3) << " on rank " << rank);
      CHECK(found[at] == Approx(expected[at]).epsilon(1e-9));
    }
  }
}

TEST_CASE("ranks keep the same best checkpoints by a value of the step that each has another of") {
  const bool synchronized = GENERATE(false, true);
  const RankRun run("lightning", "keeps", 2, {synchronized ? "synchronize=1" : "synchronize=0"});
  REQUIRE(run.outcome.ok());
  // Validations are behind batches 3, 6 and 9 of ten. Rank r's values are r + 1 times 2, 5 and 8; rank 0's count, or the mean.
  const double best = synchronized ? 12 : 8;
  run.check_everywhere("score", best);
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(run.text(rank, "best") == "step=9.ckpt");
  run.check_everywhere("step=9", best);
  run.check_everywhere("step=19", best);
}
