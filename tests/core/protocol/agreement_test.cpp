// What several ranks agree on at a boundary.

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/protocol/metric_store.h"
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
  for (const auto& error : result.errors) {
    try {
      if (error) std::rethrow_exception(error);
      texts.emplace_back();
    } catch (const std::exception& caught) {
      texts.emplace_back(caught.what());
    }
  }
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
            // Nothing that reads costs anything.
            rank.store.callback_metrics();
            rank.store.monitored("m0");
            rank.store.local_step_row();
            CHECK(rank.store.collectives() == before + 1);
          }) == kNoErrors2);
  }
}

TEST_CASE("a reduced step value is weighted by batch size; a local one is each rank's own, and rank 0's in the row") {
  CHECK(run(2, [](ControlGroup& group) {
          Rank rank(group);
          rank.store.begin_batch({.batch_size = group.rank() == 0 ? 1 : 3});
          rank.log(Hook::kTrainingStep, "synced", group.rank() == 0 ? 2 : 6, {.sync_dist = true});
          rank.log(Hook::kTrainingStep, "own", group.rank() + 10.0, {.per_rank = true});
          CHECK(rank.store.callback_metrics() == MetricMap{{"own", group.rank() + 10.0}});
          CHECK_FALSE(rank.store.monitored("own").has_value());
          CHECK(rank.store.local_step_row() ==
                MetricMap{{"own", group.rank() + 10.0}, {"synced", group.rank() == 0 ? 2.0 : 6.0}});
          rank.store.end_batch();
          const BoundaryOutcome outcome = rank.meet(BoundaryKind::kTrainStep);
          CHECK(outcome.logger_row == MetricMap{{"synced", 5}, {"own", 10}, {"rank_0_own", 10}, {"rank_1_own", 11}});
          CHECK(outcome.local_row == MetricMap{{"synced", group.rank() == 0 ? 2.0 : 6.0}, {"own", group.rank() + 10.0}});
          CHECK(outcome.rank_rows == std::vector<MetricMap>{{{"synced", 2}, {"own", 10}}, {{"synced", 6}, {"own", 11}}});
          CHECK(rank.store.callback_metrics() == MetricMap{{"own", group.rank() + 10.0}, {"synced", 5}});
          CHECK(rank.store.monitored("own") == 10.0);
          CHECK(rank.store.monitored("synced") == 5.0);
          // A value is written once: nothing was logged since.
          CHECK(rank.meet(BoundaryKind::kTrainStep).logger_row.empty());
        }) == kNoErrors2);
}

TEST_CASE("a step's value can be decided on wherever ranks meet to decide, before any row of a step is due") {
  const int ranks = GENERATE(2, 4);
  const auto kind = GENERATE(BoundaryKind::kDecision, BoundaryKind::kEpochReached, BoundaryKind::kEpochEnd);
  const Stage stage = kind == BoundaryKind::kDecision ? Stage::kTrain : GENERATE(Stage::kTrain, Stage::kValidate);
  CHECK(
      run(ranks, [&](ControlGroup& group) {
        Rank rank(group);
        const double mean = (ranks - 1) / 2.0;
        for (const double base : {10.0, 20.0}) {
          rank.log(Hook::kTrainingStep, "own", 0);
          rank.log(Hook::kTrainingStep, "own", base + group.rank());
          rank.log(Hook::kTrainingStep, "synced", base + group.rank(), {.sync_dist = true});
          if (group.rank() == 1) rank.log(Hook::kTrainingStep, "of_one", base, {.sync_dist = base > 0});
          if (stage == Stage::kValidate) rank.store.begin_stage(stage);
          CHECK(rank.meet(kind, stage).logger_row.empty());
          CHECK(rank.store.monitored("own") == base);
          CHECK(rank.store.monitored("synced") == base + mean);
          CHECK(rank.store.callback_metrics().at("synced") == base + mean);
          CHECK(rank.store.monitored("of_one") == base);
          if (stage == Stage::kValidate) rank.store.end_stage();
        }
        CHECK(rank.store.collectives() == 3);  // keys that are new cost one more
        // The row is not poorer for it.
        CHECK(rank.meet(BoundaryKind::kTrainStep).logger_row == MetricMap{{"own", 20}, {"synced", 20 + mean}, {"of_one", 20}});
      }) == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("a step's value that has been decided on is not decided on again, and a newer one is") {
  CHECK(run(2, [](ControlGroup& group) {
          Rank rank(group);
          rank.log(Hook::kTrainingStep, "loss", 1);
          rank.meet(BoundaryKind::kDecision);
          rank.store.begin_stage(Stage::kValidate);
          rank.log(Hook::kOnValidationEpochEnd, "loss", 5);
          rank.meet(BoundaryKind::kEpochEnd, Stage::kValidate);
          rank.store.end_stage();
          rank.meet(BoundaryKind::kEpochReached);
          CHECK(rank.store.monitored("loss") == 5.0);  // as on one rank, where the newest is shown
          rank.log(Hook::kTrainingStep, "loss", 2);
          rank.meet(BoundaryKind::kEpochEnd);
          CHECK(rank.store.monitored("loss") == 2.0);
        }) == kNoErrors2);
}

TEST_CASE("what was decided on since the mark is decided on anew by a run that resumes from it") {
  CHECK(run(2, [](ControlGroup& group) {
          Rank rank(group);
          rank.log(Hook::kTrainingStep, "loss", 4.0 + group.rank(), {.sync_dist = true});
          rank.store.mark();
          const MetricMaps maps = rank.store.maps();
          rank.meet(BoundaryKind::kDecision);
          for (const auto& [moment, expected] : {std::pair(MetricMoment::kMark, 4.5), std::pair(MetricMoment::kNow, 9.0)}) {
            MetricSnapshot snapshot = rank.store.save(moment);
            if (moment == MetricMoment::kMark) snapshot.maps = maps;
            Rank resumed(group);
            resumed.store.restore({snapshot});
            if (moment == MetricMoment::kNow) resumed.store.set_callback_metric("loss", 9);  // nothing takes its place
            resumed.meet(BoundaryKind::kDecision);
            CHECK(resumed.store.monitored("loss") == expected);
          }
        }) == kNoErrors2);
}

TEST_CASE("rank_zero_only: rank 0's value on all ranks, logged on one rank or on all, without a word") {
  for (const bool guarded : {true, false}) {
    CHECK(run(3, [&](ControlGroup& group) {
            Rank rank(group, /*strict=*/true);
            rank.meet(BoundaryKind::kEpochReached);
            if (!guarded || group.rank() == 0) {
              rank.log(Hook::kOnTrainEpochEnd, "f1", 0.5 + group.rank(), {.rank_zero_only = true});
            }
            CHECK(rank.meet(BoundaryKind::kEpochEnd).logger_row == MetricMap{{"f1", 0.5}});
            CHECK(rank.store.callback_metrics() == MetricMap{{"f1", 0.5}});
            CHECK(rank.store.monitored("f1") == 0.5);
            CHECK(rank.warnings.empty());
          }) == std::vector<std::string>(3));
  }
}

TEST_CASE("sync_dist false keeps an epoch value local; monitors decide on rank 0's") {
  CHECK(run(2, [](ControlGroup& group) {
          Rank rank(group);
          rank.log(Hook::kOnTrainEpochStart, "x", group.rank() + 1.0, {.sync_dist = false});
          rank.meet(BoundaryKind::kEpochReached);
          CHECK(rank.store.callback_metrics() == MetricMap{{"x", group.rank() + 1.0}});
          CHECK(rank.store.monitored("x") == 1.0);
        }) == kNoErrors2);
}

TEST_CASE("different options on different ranks end all ranks with one error that names both call sites") {
  const auto errors = run(3, [](ControlGroup& group) {
    Rank rank(group);
    rank.log(Hook::kTrainingStep, "loss", 1, {.prog_bar = group.rank() == 2}, group.rank() == 2 ? 20 : 10);
    rank.meet(BoundaryKind::kTrainStep);
  });
  for (const std::string& error : errors) {
    CHECK(error == errors[0]);
    CHECK_THAT(error, Catch::Contains("log(\"loss\") in training_step") && Catch::Contains("on rank 0 (model.cpp:10)") &&
                          Catch::Contains("prog_bar=true on rank 2 (model.cpp:20)"));
  }
}

TEST_CASE("options that change half-way are an error at the log() that changes them") {
  const auto errors = run(1, [](ControlGroup& group) {
    Rank rank(group);
    rank.log(Hook::kTrainingStep, "loss", 1, {}, 10);
    rank.meet(BoundaryKind::kTrainStep);
    rank.log(Hook::kTrainingStep, "loss", 1, {.reduce = Reduce::kSum}, 11);
  });
  CHECK_THAT(errors[0], Catch::Contains("(model.cpp:11): its options are") && Catch::Contains("reduce=sum here") &&
                            Catch::Contains("at model.cpp:10"));
}

TEST_CASE("strict_logging: a key that only some ranks logged ends all ranks with one error") {
  const auto errors = run(4, [](ControlGroup& group) {
    Rank rank(group, /*strict=*/true);
    rank.meet(BoundaryKind::kEpochReached);
    if (group.rank() != 1) rank.log(Hook::kOnTrainEpochEnd, "acc", 1, {}, 12);
    rank.meet(BoundaryKind::kEpochEnd);
  });
  for (const std::string& error : errors) {
    CHECK(error == errors[0]);
    CHECK_THAT(error,
               Catch::Contains("log(\"acc\") in on_train_epoch_end (model.cpp:12) ran on ranks 0, 2, 3 and not on rank 1"));
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

TEST_CASE("a run that meets new keys of some ranks again and again stops telling of them") {
  CHECK(run(2, [](ControlGroup& group) {
          Rank rank(group);
          for (int step = 0; step < 200; ++step) {
            if (group.rank() == 0) rank.log(Hook::kTrainingStep, "key_" + std::to_string(step), 1, {.on_step = true});
            rank.store.begin_batch({.batch_size = 1});
            rank.store.end_batch();
            rank.meet(BoundaryKind::kTrainStep);
          }
          REQUIRE(rank.warnings.size() == 51);
          CHECK_THAT(rank.warnings[49], Catch::Contains("key_49"));
          CHECK_THAT(rank.warnings[50], Catch::StartsWith("More keys are logged by some ranks only"));
        }) == kNoErrors2);
}

TEST_CASE("a rank without a batch, and keys of one rank's own, are no reason to warn") {
  CHECK(run(2, [](ControlGroup& group) {
          Rank rank(group, /*strict=*/true);
          if (group.rank() == 0) {
            rank.store.begin_batch({.batch_size = 4});
            rank.log(Hook::kTrainingStep, "loss", 3, {.on_epoch = true, .sync_dist = true});
            rank.store.end_batch();
          }
          rank.log(Hook::kOnTrainEpochStart, "rank_" + std::to_string(group.rank()) + "_seconds", group.rank() + 1);
          CHECK(rank.meet(BoundaryKind::kTrainStep).logger_row == MetricMap{{"loss_step", 3}});
          rank.meet(BoundaryKind::kEpochReached);
          CHECK(rank.meet(BoundaryKind::kEpochEnd).logger_row ==
                MetricMap{{"loss_epoch", 3}, {"rank_0_seconds", 1}, {"rank_1_seconds", 2}});
          CHECK(rank.warnings.empty());
        }) == kNoErrors2);
}

TEST_CASE("a rank that cannot read its values fails alone, and the others say why") {
  struct Broken final : DeferredValue {
    double read() override { throw std::runtime_error("CUDA error: an illegal memory access"); }
    std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>&, Reduce, double) override { return nullptr; }
  };
  const auto errors = run(2, [](ControlGroup& group) {
    Rank rank(group);
    rank.store.enter(Hook::kTrainingStep);
    if (group.rank() == 1) rank.store.log("loss", std::make_shared<Broken>(), {}, site(1));
    rank.meet(BoundaryKind::kTrainStep);
  });
  CHECK_THAT(errors[0], Catch::StartsWith("rank 1 failed while it read its metrics for a step of train") &&
                            Catch::EndsWith("CUDA error: an illegal memory access"));
  CHECK(errors[1] == "CUDA error: an illegal memory access");
}

TEST_CASE("frames have one size even when ranks meet in boundaries with different metrics") {
  testing::SimulatedRanks simulated;
  const auto result = simulated.run(2, 5, [](ControlGroup& group) {
    Rank rank(group);
    for (int index = 0; index < 200; ++index) rank.log(Hook::kOnTrainEpochStart, "m" + std::to_string(index), 1);
    rank.meet(BoundaryKind::kEpochReached);
    rank.meet(group.rank() == 0 ? BoundaryKind::kTrainStep : BoundaryKind::kEpochEnd);
  });
  CHECK_FALSE(result.calls_differed);
  for (const auto& error : result.errors) {
    REQUIRE(error);
    CHECK_THROWS_WITH(std::rethrow_exception(error),
                      Catch::Contains("rank 0 is in a step of train (epoch 0, step 1)") &&
                          Catch::Contains("rank 1 is in the end of an epoch of train (epoch 0, step 1)"));
  }
}
