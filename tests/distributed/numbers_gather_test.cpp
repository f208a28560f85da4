#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <sstream>

#include "distributed/rank_run.h"

using levin::test::GoodRun;
using levin::test::RankRun;

namespace {

std::vector<int> up_to(int count) {
  std::vector<int> samples;
  for (int index = 0; index < count; ++index) samples.push_back(index);
  return samples;
}

/// What numbers_program reports of a tensor with one row for each of these samples.
std::string scalars(
    const std::string& type, const std::vector<int>& samples,
    const std::function<int(int)>& value = [](int sample) { return sample; }) {
  std::ostringstream text;
  text << type << "[" << samples.size() << "]=";
  for (std::size_t index = 0; index < samples.size(); ++index) text << (index > 0 ? "," : "") << value(samples[index]);
  return text.str();
}

/// Every rank reported this, each of the times.
void check_everywhere(const RankRun& run, const std::string& name, const std::vector<std::string>& expected) {
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
    INFO(name << " on rank " << rank);
    REQUIRE(run.has(rank, name));
    CHECK(run.by_rank[rank].at(name) == expected);
  }
}

}  // namespace

TEST_CASE("gathered rows are each sample once, in the dataset's order, however samples divide over ranks") {
  const int ranks = GENERATE(1, 2, 4);
  const int samples = GENERATE(26, 3, 1);
  const auto uneven = GENERATE("pad", "keep");
  const GoodRun run("numbers", "gathers", ranks,
                    {"samples=" + std::to_string(samples), "batch=8", "shuffle=1", std::string("uneven=") + uneven});
  for (const char* epoch : {"_0", "_1"}) {
    check_everywhere(run, std::string("train") + epoch, {scalars("Float", up_to(samples))});
    check_everywhere(run, std::string("val0") + epoch, {scalars("Float", up_to(samples))});
  }
}

TEST_CASE("rows of any type are gathered unchanged") {
  const int ranks = GENERATE(1, 3);
  const auto [type, name] = GENERATE(table<std::string, std::string>(
      {{"float", "Float"}, {"double", "Double"}, {"int64", "Long"}, {"bool", "Bool"}, {"bfloat16", "BFloat16"}}));
  const GoodRun run("numbers", "gathers", ranks, {"samples=10", "batch=2", "epochs=1", "type=" + type});
  const bool is_bool = type == "bool";
  check_everywhere(run, "val0_0",
                   {scalars(name, up_to(10), [&](int sample) { return is_bool ? (sample % 3 == 0 ? 1 : 0) : sample; })});
}

TEST_CASE("rows may have several dimensions, and each loader has its rows") {
  const int ranks = GENERATE(1, 2, 4);
  const GoodRun run("numbers", "gathers", ranks, {"samples=5", "second=3", "batch=2", "matrix=1", "epochs=1", "workers=2"});
  const auto matrices = [](int samples) {
    std::ostringstream text;
    text << "Float[" << samples << ",2,3]=";
    for (int index = 0; index < samples * 6; ++index) text << (index > 0 ? "," : "") << index / 6 + index % 6;
    return text.str();
  };
  check_everywhere(run, "train_0", {matrices(5)});
  check_everywhere(run, "val0_0", {matrices(5)});
  check_everywhere(run, "val1_0", {matrices(3)});
}

TEST_CASE("inside a step the rows of that step are gathered, without those that only make ranks even") {
  const auto [ranks, batch] = GENERATE(table<int, int>({{1, 8}, {2, 4}, {4, 2}}));
  const GoodRun run("numbers", "gathers", ranks, {"samples=26", "batch=" + std::to_string(batch), "in_step=1", "limit=3"});
  std::vector<std::string> steps;
  for (const int first : {0, 8, 16}) {
    std::vector<int> samples(8);
    for (int index = 0; index < 8; ++index) samples[static_cast<std::size_t>(index)] = first + index;
    steps.push_back(scalars("Float", samples));
  }
  check_everywhere(run, "val_step0_0", steps);
  check_everywhere(run, "val_step0_1", steps);
  check_everywhere(run, "train_steps_1", {scalars("Float", up_to(24))});
}

TEST_CASE("padding does not count in the step that it fills") {
  const int ranks = GENERATE(2, 4);
  // One step of each rank, in which the last ranks' last row is padding.
  const GoodRun run("numbers", "gathers", ranks, {"samples=5", "batch=3", "in_step=1", "shuffle=1", "epochs=1"});
  check_everywhere(run, "train_steps_0", {scalars("Float", up_to(5))});
}

TEST_CASE("limits and drop_last leave only the samples that were seen") {
  const auto [ranks, batch] = GENERATE(table<int, int>({{1, 8}, {2, 4}, {4, 2}}));
  const GoodRun limited("numbers", "gathers", ranks, {"samples=26", "batch=" + std::to_string(batch), "limit=2", "workers=2"});
  check_everywhere(limited, "train_1", {scalars("Float", up_to(16))});
  check_everywhere(limited, "val0_1", {scalars("Float", up_to(16))});
  const GoodRun dropped("numbers", "gathers", ranks, {"samples=26", "batch=" + std::to_string(batch), "drop_last=1"});
  check_everywhere(dropped, "train_0", {scalars("Float", up_to(24))});
  check_everywhere(dropped, "val0_0", {scalars("Float", up_to(24))});
}

TEST_CASE("a loader that cannot tell its samples gives rows in the order of ranks") {
  const GoodRun run("numbers", "gathers", 2, {"samples=5", "batch=2", "own=1", "epochs=1"});
  check_everywhere(run, "val0_0", {scalars("Float", {0, 2, 4, 1, 3})});
}

TEST_CASE("a rank gathers nothing where no rank has anything") {
  const int ranks = GENERATE(1, 2);
  const GoodRun run("numbers", "gathers", ranks, {"samples=8", "second=0", "batch=2", "epochs=1", "type=int64"});
  check_everywhere(run, "val0_0", {scalars("Long", up_to(8))});
  check_everywhere(run, "val1_0", {"Float[0]="});
}

TEST_CASE("a metric of the whole validation set is bit for bit that of one process") {
  const int samples = GENERATE(101, 3);
  const GoodRun one("numbers", "computes_area_under_curve", 1, {"samples=" + std::to_string(samples), "batch=8"});
  int wins = 0;
  int pairs = 0;
  for (int positive = 0; positive < samples; positive += 3) {
    for (int negative = 0; negative < samples; ++negative) {
      if (negative % 3 == 0) continue;
      ++pairs;
      wins += std::sin(positive * 12.9898) > std::sin(negative * 12.9898) ? 1 : 0;
    }
  }
  CHECK(one.number(0, "result:auc") == Approx(static_cast<double>(wins) / pairs).epsilon(1e-12));
  for (const int ranks : {2, 4}) {
    const GoodRun many("numbers", "computes_area_under_curve", ranks, {"samples=" + std::to_string(samples), "batch=4"});
    for (const char* name : {"result:auc", "result:weighted"}) check_everywhere(many, name, one.by_rank[0].at(name));
  }
}

TEST_CASE("rows that do not fit, and steps that ranks lack, end all ranks with an error that says why") {
  const auto [how, text] = GENERATE(table<std::string, std::string>({
      {"missing_batch", "got 4 rows, but this rank has seen 5 samples in this epoch: it needs one row for each sample"},
      {"left_out", "got 0 rows, but this rank has seen 5 samples"},
      {"other_type", "ranks collected different tensors: Float [*] on rank 0, Double [*] on rank 1"},
      {"other_shape", "ranks collected different tensors: Float [*] on rank 0, Float [*, 1] on rank 1"},
      {"mixed", "all batches need rows of one type and shape, but they are Float [*] and Float [*, 1]"},
      {"undefined", "one of the tensors is undefined"},
      {"scalar", "the first of which counts samples; one has 0"},
      {"no_such_loader", "dataloader_idx is 1, but there is 1 loader"},
      {"elsewhere", "ranks met in different calls"},
      {"too_late", "no data is being read here"},
      {"uneven_steps", "ranks met in different calls:\n  rank 0: gather_for_metrics at numbers_gather.cpp:"},
  }));
  // In a step where rank 1 has no batch, or with as many batches on each.
  const std::string samples = how == "uneven_steps" ? "samples=9" : "samples=10";
  const RankRun run("numbers", "gathers_wrongly", 2, {samples, "batch=4", "epochs=1", "how=" + how});
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == 1);
  CHECK(run.outcome.err.find("gather_for_metrics at numbers_gather.cpp:") != std::string::npos);
  CHECK(run.outcome.err.find(text) != std::string::npos);
}
