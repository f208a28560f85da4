// What several ranks agree on at a boundary.

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/protocol/metric_store.h"
#include "support/error_of.h"
#include "support/simulated_ranks.h"

using namespace levin;

namespace {

CallSite site(std::uint32_t line) {
  CallSite where;
  where.file = "/home/user/model.cpp";
  where.line = line;
  return where;
}

/// A rank of a test: a store in a training stage, and what it warned of.
struct Rank {
  explicit Rank(ControlGroup& group, bool strict = false)
      : rank(group.rank()),
        store(group, {.strict_logging = strict, .warn = [this](const std::string& text) { warnings.push_back(text); }}) {
    store.begin_stage(Stage::kTrain);
  }
  void log(Hook hook, const std::string& name, double value, const LogOptions& options = {}, std::uint32_t line = 1) {
    store.enter(hook);
    store.log(name, value, options, site(line));
  }
  BoundaryOutcome meet(BoundaryKind kind, Stage stage = Stage::kTrain) { return store.meet({kind, stage, 0, step++}, {}); }

  int rank;
  std::vector<std::string> warnings;
  MetricStore store;
  std::int64_t step = 0;
};

/// Runs on every rank; gives each rank's error text, "" for none.
std::vector<std::string> run(int ranks, const std::function<void(ControlGroup&)>& body) {
  testing::SimulatedRanks simulated;
  const auto result = simulated.run(ranks, 11, body);
  CHECK_FALSE(result.hung);
  std::vector<std::string> texts;
  for (const auto& error : result.errors) texts.push_back(test::error_of(error));
  return texts;
}

const std::vector<std::string> kNoErrors2(2);

}  // namespace

TEST_CASE("100 metrics reduced over ranks cost one collective, as one does") {
  for (const int metrics : {0, 1, 100, 1000}) {
    CHECK(run(2, [&](ControlGroup& group) {
            Rank rank(group);
            const auto log_all = [&] {
              for (int index = 0; index < metrics; ++index) {
                rank.log(Hook::kTrainingStep, "m" + std::to_string(index), group.rank() + index, {.sync_dist = true});
              }
            };
            log_all();
            rank.meet(BoundaryKind::kTrainStep);
            CHECK(rank.store.collectives() == (metrics == 0 ? 1 : 2));  // new keys: one exchange more, once
            const std::int64_t before = rank.store.collectives();
            log_all();
            const MetricMap row = rank.meet(BoundaryKind::kTrainStep).logger_row;
            CHECK(rank.store.collectives() == before + 1);
            CHECK(row.size() == static_cast<std::size_t>(metrics));
            for (int index = 0; index < metrics; ++index) CHECK(row.at("m" + std::to_string(index)) == index + 0.5);
            // Reading costs nothing.
            rank.store.callback_metrics();
            rank.store.monitored("m0");
            rank.store.local_step_row();
            CHECK(rank.store.collectives() == before + 1);
          }) == kNoErrors2);
  }
}

TEST_CASE("many keys that some ranks lack are one warning, or one error") {
  for (const bool strict : {false, true}) {
    const auto errors = run(2, [&](ControlGroup& group) {
      Rank rank(group, strict);
      for (int key = 0; key < 5000 * (1 - group.rank()); ++key) {
        rank.log(Hook::kOnTrainEpochEnd, "key_" + std::to_string(key), 1, {}, 7);
      }
      rank.meet(BoundaryKind::kEpochEnd);
      REQUIRE(rank.warnings.size() == 1);
      CHECK_THAT(rank.warnings[0],
                 Catch::StartsWith("5000 keys were not logged by every rank") &&
                     Catch::Contains("log(\"key_0\") in on_train_epoch_end (model.cpp:7) ran on rank 0 and not on rank 1") &&
                     Catch::Contains("\"key_1\", \"key_2\", \"key_3\"") && Catch::Contains("and 4992 more"));
    });
    for (const std::string& error : errors) {
      CHECK(error.empty() != strict);
      if (strict)
        CHECK_THAT(error, Catch::Contains("5000 keys were not logged by every rank") && Catch::Contains("and 4992 more"));
      CHECK(error.size() < 1000);
    }
  }
}
