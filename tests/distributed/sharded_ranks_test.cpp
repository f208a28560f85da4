#include <catch2/catch.hpp>
#include <filesystem>

#include "distributed/rank_run.h"

namespace {

using Settings = std::vector<std::string>;

/// sharded_program, which trains a small network.
struct Run : levin::test::RankRun {
  Run(int ranks, const Settings& settings) : RankRun("sharded", "fit", ranks, settings) {}
  void again(int ranks, const Settings& settings) { start("sharded", "fit", ranks, settings); }
};

/// The weights that all ranks have.
std::vector<double> weights(const Run& run) {
  REQUIRE(run.outcome.ok());
  return run.common_numbers("weights");
}

void check_equal(const std::vector<double>& found, const std::vector<double>& expected, double margin = 1e-6) {
  levin::test::check_numbers(found, expected, Approx::custom().margin(margin));
}

Settings with(Settings settings, const std::string& more) {
  settings.push_back(more);
  return settings;
}

}  // namespace

TEST_CASE("ranks with shares of an optimizer's state train to the weights of ddp") {
  const auto [ranks, settings] = GENERATE(table<int, Settings>({
      {2, {"optimizer=SGD"}},
      {4, {"optimizer=Adam", "clip=0.1"}},
      {2, {"optimizer=AdamW", "accumulate=3", "uneven=1"}},
      {3, {"optimizer=RMSprop", "change=add"}},
      {2, {"optimizer=Adagrad", "change=freeze"}},
      {3, {"optimizer=Adam", "unused=1", "uneven=1"}},
      {2, {"optimizer=Adam", "by_hand=1", "change=add"}},
      {3, {"optimizer=Adafactor"}},
      {2, {"optimizer=NAdam", "unused=1"}},
      {2, {"optimizer=Adam", "odd=tied"}},
      {2, {"optimizer=NAdam", "odd=tied"}},
      {3, {"optimizer=SGD", "odd=sparse"}},
      {2, {"optimizer=Adagrad", "odd=sparse", "change=add", "accumulate=2"}},
      {2, {"optimizer=SGD", "odd=complex", "uneven=1"}},
  }));
  INFO(settings.front() << " " << settings.back() << " on " << ranks);
  const Run plain(ranks, with(settings, "strategy=ddp"));
  const std::vector<double> expected = weights(plain);
  const Run sharded(ranks, with(settings, "strategy=ddp_sharded"));
  check_equal(weights(sharded), expected);
  double states = 0;
  for (std::size_t rank = 0; rank < sharded.by_rank.size(); ++rank) {
    CHECK(sharded.number(rank, "states") >= 1);
    CHECK(sharded.number(rank, "states") <= plain.number(rank, "states") - 2);
    states += sharded.number(rank, "states");
    CHECK_THAT(sharded.outcome.text(),
               Catch::Contains("[rank " + std::to_string(rank) + "] " + settings.front().substr(10) + " stores the state of "));
  }
  CHECK(states == plain.number(0, "states"));
}

TEST_CASE("a second fit divides as the first did, and holds none of its parameters") {
  const Run run(2, {"strategy=ddp_sharded", "epochs=2", "fits=2"});
  weights(run);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(run.number(rank, "share") == run.number(rank, "share_of_first"));
    CHECK(run.number(rank, "left_of_first") == 0);
  }
  CHECK(run.number(0, "share") != run.number(1, "share"));
}

TEST_CASE("numbers of a share's state that are infinite, or none, are unchanged in a run that resumes") {
  Run run(2, {"strategy=ddp_sharded", "optimizer=Odd"});
  const std::vector<double> expected = weights(run);
  run.again(2, {"strategy=ddp_sharded", "optimizer=Odd", "epochs=2", "save=odd.ckpt"});
  weights(run);
  for (const std::string strategy : {"strategy=ddp_sharded", "strategy=ddp"}) {
    run.again(2, {strategy, "optimizer=Odd", "resume=odd.ckpt"});
    check_equal(weights(run), expected);
  }
}

TEST_CASE("a checkpoint of shares is loaded by any number of ranks, with ddp and on one process, and back") {
  const std::string optimizer =
      GENERATE("optimizer=Adam", "optimizer=RMSprop", "optimizer=SGD", "optimizer=Adagrad", "optimizer=NAdam");
  const std::string odd = optimizer == "optimizer=SGD" ? GENERATE("odd=sparse", "odd=complex") : "odd=tied";
  Run plain(2, {optimizer, odd, "strategy=ddp", "epochs=1", "save=plain.ckpt"});
  weights(plain);
  plain.again(3, {optimizer, odd, "strategy=ddp_sharded", "epochs=1", "first=1", "save=three.ckpt"});
  weights(plain);
  plain.again(2, {optimizer, odd, "strategy=ddp_sharded", "epochs=1", "save=sharded.ckpt"});
  weights(plain);
  for (const int ranks : {1, 2, 3}) {
    const std::string strategy = ranks == 1 ? "strategy=single_device" : "strategy=ddp";
    plain.again(ranks, {optimizer, odd, strategy, "resume=plain.ckpt"});
    const std::vector<double> expected = weights(plain);
    INFO(optimizer << " " << odd << ", on " << ranks);
    plain.again(ranks, {optimizer, odd, strategy, "resume=sharded.ckpt"});
    check_equal(weights(plain), expected);
    if (ranks == 1) continue;
    plain.again(ranks, {optimizer, odd, "strategy=ddp_sharded", "resume=plain.ckpt"});
    check_equal(weights(plain), expected);
    plain.again(ranks, {optimizer, odd, "strategy=ddp", "resume=three.ckpt"});
    const std::vector<double> of_three = weights(plain);
    plain.again(ranks, {optimizer, odd, "strategy=ddp_sharded", "resume=three.ckpt"});
    check_equal(weights(plain), of_three);
  }
}

TEST_CASE("a run of shares that a signal ends is saved whole, and resumes exactly") {
  Run run(2, {"strategy=ddp_sharded"});
  const std::vector<double> expected = weights(run);
  run.again(2, {"strategy=ddp_sharded", "signal=1", "on_exception=1"});
  CHECK(run.outcome.status == 128 + 15);
  REQUIRE(std::filesystem::exists(run.folder.path() / "on_exception.ckpt"));
  run.again(2, {"strategy=ddp_sharded", "resume=on_exception.ckpt"});
  check_equal(weights(run), expected);
}

TEST_CASE("rank 0 cannot save other ranks' shares after an error, and says so") {
  const Run run(2, {"strategy=ddp_sharded", "fails=1", "on_exception=1"});
  CHECK(run.outcome.status == 1);
  CHECK_THAT(run.outcome.err, Catch::Contains("rank 0 alone cannot save it after an error"));
  CHECK(!std::filesystem::exists(run.folder.path() / "on_exception.ckpt"));
}

TEST_CASE("an optimizer whose state cannot be divided is an error that names it") {
  const std::string optimizer = GENERATE("LBFGS", "AdamWScheduleFree");
  const Run run(2, {"strategy=ddp_sharded", "optimizer=" + optimizer});
  CHECK(run.outcome.status != 0);
  CHECK_THAT(run.outcome.err,
             Catch::Contains("strategy ddp_sharded: the state of " + optimizer + " cannot be divided over ranks"));
}

TEST_CASE("a run with PowerSGD resumes with what its approximations have left out") {
  Run run(2, {"strategy=ddp", "power=1"});
  const std::vector<double> expected = weights(run);
  run.again(2, {"strategy=ddp", "power=1", "epochs=2", "save=two.ckpt"});
  weights(run);
  run.again(2, {"strategy=ddp", "power=1", "resume=two.ckpt"});
  check_equal(weights(run), expected);
  run.again(3, {"strategy=ddp", "power=1", "resume=two.ckpt"});
  weights(run);
  run.again(2, {"strategy=ddp", "resume=two.ckpt"});
  const std::vector<double> without = weights(run);
  CHECK(without != expected);
}

TEST_CASE("weights of other kinds, and LBFGS, train on ranks as on one process") {
  // LBFGS amplifies the rounding of sums over ranks: hence 64 bits.
  const Settings settings =
      GENERATE(Settings{"optimizer=Adam", "odd=tied"}, Settings{"optimizer=SGD", "odd=sparse"},
               Settings{"optimizer=Adagrad", "odd=sparse", "change=add"}, Settings{"optimizer=SGD", "odd=complex"},
               Settings{"optimizer=LBFGS", "double=1"}, Settings{"optimizer=LBFGS", "double=1", "odd=tied"},
               Settings{"optimizer=line search", "double=1"}, Settings{"optimizer=line search", "double=1", "odd=tied"});
  INFO(settings.front() << " " << settings.back());
  const std::vector<double> expected = weights(Run(1, with(with(settings, "merged=2"), "strategy=single_device")));
  check_equal(weights(Run(2, with(settings, "strategy=ddp"))), expected, 1e-4);
}

TEST_CASE("LBFGS continues where a rank has no batch") {
  weights(Run(2, {"optimizer=LBFGS", "uneven=1", "strategy=ddp"}));
  weights(Run(3, {"optimizer=line search", "uneven=1", "strategy=ddp"}));
}

TEST_CASE("Optimizer::zero_grad() clears gradients that are parts of a bucket") {
  const std::vector<double> expected = weights(Run(2, {"optimizer=Adam", "by_hand=1", "strategy=ddp"}));
  check_equal(weights(Run(2, {"optimizer=Adam", "by_hand=1", "strategy=ddp", "views=1"})), expected);
}
