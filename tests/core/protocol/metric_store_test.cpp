#include "levin/core/protocol/metric_store.h"

#include <array>
#include <catch2/catch.hpp>
#include <thread>
#include <tuple>

#include "levin/core/base/error.h"
#include "levin/core/protocol/metric_table.h"
#include "support/error_of.h"
#include "support/simulated_ranks.h"

using namespace levin;

namespace {

using detail::Slot;

const CallSite kHere{levin::SourceLocation::current()};

/// One rank's store in training.
struct Solo {
  Solo() { store.begin_stage(Stage::kTrain); }
  SingleProcessGroup group;
  MetricStore store{group, {}};

  void log(Hook hook, const char* name, double value, const LogOptions& options = {}) {
    store.enter(hook);
    store.log(name, value, options, kHere);
  }
  BoundaryOutcome meet(BoundaryKind kind, Stage stage = Stage::kTrain) { return store.meet({kind, stage, 0, 0}, {}); }
};

}  // namespace

TEST_CASE("an epoch that was saved half-way continues elsewhere, on one rank instead of two as well") {
  const auto log = [](Solo& solo, double value, std::int64_t batch_size) {
    solo.store.begin_batch({.batch_size = batch_size});
    solo.log(Hook::kTrainingStep, "mean", value, {.on_epoch = true});
    solo.log(Hook::kTrainingStep, "sum", value, {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    solo.log(Hook::kTrainingStep, "min", value, {.on_step = false, .on_epoch = true, .reduce = Reduce::kMin});
    solo.store.end_batch();
  };
  std::vector<MetricSnapshot> saved;
  for (const auto& [value, batch_size] : {std::pair(10.0, 3), std::pair(20.0, 1)}) {
    Solo solo;
    log(solo, value, batch_size);
    if (value == 10) solo.log(Hook::kOnTrainStart, "early", 5);
    saved.push_back(solo.store.save());
  }
  Solo resumed;
  resumed.log(Hook::kOnTrainStart, "early", 5);
  resumed.store.restore(saved);
  log(resumed, 30, 4);
  resumed.meet(BoundaryKind::kEpochReached);
  const MetricMap expected{{"mean_epoch", (10 * 3 + 20 + 30 * 4) / 8.0}, {"sum", 60}, {"min", 10}, {"early", 5}};
  CHECK(resumed.meet(BoundaryKind::kEpochEnd).logger_row == expected);
}

TEST_CASE("a saved epoch's key that has other options now starts again") {
  Solo solo;
  solo.log(Hook::kTrainingStep, "loss", 1, {.on_step = false, .on_epoch = true});
  Solo resumed;
  const LogOptions sum{.on_step = false, .on_epoch = true, .reduce = Reduce::kSum};
  resumed.log(Hook::kTrainingStep, "loss", 3, sum);
  resumed.store.restore({solo.store.save()});
  resumed.log(Hook::kTrainingStep, "loss", 7, sum);
  resumed.meet(BoundaryKind::kEpochReached);
  CHECK(resumed.store.callback_metrics() == MetricMap{{"loss", 7}});
}

TEST_CASE("a snapshot brings back what monitors and bars see, and the step's row that is due") {
  Solo solo;
  solo.store.begin_batch({.batch_size = 2});
  solo.log(Hook::kTrainingStep, "loss", 4, {.prog_bar = true});
  solo.store.end_batch();
  Solo resumed;
  resumed.store.restore({solo.store.save()});
  CHECK(resumed.store.callback_metrics() == MetricMap{{"loss", 4}});
  CHECK(resumed.store.progress_bar_metrics() == MetricMap{{"loss", 4}});
  CHECK(resumed.store.monitored("loss") == 4);
  CHECK(resumed.store.local_step_row() == MetricMap{{"loss", 4}});
  CHECK(resumed.meet(BoundaryKind::kTrainStep).logger_row == MetricMap{{"loss", 4}});
}

TEST_CASE("log() where it has no meaning names hook, key and call site") {
  Solo solo;
  using Row = std::tuple<Hook, const char*, LogOptions, const char*>;
  for (const auto& [hook, name, options, error] :
       {Row{Hook::kOnFitStart, "a", {}, "log(\"a\") in on_fit_start (metric_store_test.cpp:"},
        Row{Hook::kOnFitStart, "a", {}, "cannot be logged"}, Row{Hook::kNone, "a", {}, ""},
        Row{Hook::kOnTrainEpochEnd, "a", {.on_step = true}, ""}, Row{Hook::kOnTrainEpochEnd, "a", {.on_epoch = false}, ""},
        Row{Hook::kTrainingStep, "a", {.on_step = false}, ""}, Row{Hook::kTrainingStep, "", {}, ""},
        Row{Hook::kTrainingStep, "a\nb", {}, "log(\"a?b\")"}, Row{Hook::kTrainingStep, "step", {}, ""},
        Row{Hook::kTrainingStep, "x/dataloader_idx_0", {}, ""},
        Row{Hook::kTrainingStep, "a", {.batch_size = -1}, "batch_size is -1"}}) {
    INFO(name << " in " << hook_name(hook));
    const std::string found =
        test::error_of<MisuseError>([&, hook = hook, name = name, &options = options] { solo.log(hook, name, 1, options); });
    CHECK_FALSE(found.empty());
    CHECK_THAT(found, Catch::Contains(error));
  }
}

TEST_CASE("log() from another thread is refused, and changes nothing") {
  Solo solo;
  solo.log(Hook::kTrainingStep, "loss", 1);
  std::string error;
  std::thread([&] { error = test::error_of<MisuseError>([&] { solo.store.log("loss", 2, {}, kHere); }); }).join();
  CHECK_THAT(error, Catch::Contains("log(\"loss\") in training_step (metric_store_test.cpp:") &&
                        Catch::Contains("only the thread that runs the hooks may log"));
  CHECK(solo.store.callback_metrics() == MetricMap{{"loss", 1}});
}

TEST_CASE("a store can be given up when its values cannot be read any more, as those of a GPU that has failed") {
  struct Lost final : DeferredValue {
    double read() override { throw std::runtime_error("device-side assert"); }
    std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>&, Reduce, double, double) override {
      return nullptr;
    }
  };
  Solo solo;
  solo.store.enter(Hook::kTrainingStep);
  solo.store.log("loss", std::make_shared<Lost>(), {.on_step = true}, kHere);
  CHECK_THROWS_WITH(solo.store.callback_metrics(), "device-side assert");
  CHECK_NOTHROW(solo.store.set_objects({}));
}

TEST_CASE("values without log() can be monitored and shown") {
  Solo solo;
  solo.store.set_callback_metric("lr", 0.1);
  CHECK(solo.store.monitored("lr") == 0.1);
  CHECK(solo.store.callback_metrics() == MetricMap{{"lr", 0.1}});
  CHECK(solo.store.logged_metrics().empty());
}

TEST_CASE("a million values are added in double precision, on one rank and over ranks") {
  const int ranks = GENERATE(1, 4);
  testing::SimulatedRanks simulated;
  std::vector<MetricMap> rows(static_cast<std::size_t>(ranks));
  const auto result = simulated.run(ranks, 1, [&](ControlGroup& group) {
    MetricStore store(group, {});
    store.begin_stage(Stage::kTrain);
    store.enter(Hook::kTrainingStep);
    for (int value = group.rank(); value < 1'000'000; value += ranks) {
      store.log("small", 0.1, {.on_step = false, .on_epoch = true}, kHere);
      store.log("large", 1e8 + value % 2, {.on_step = false, .on_epoch = true}, kHere);
      store.log("count", 1, {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum}, kHere);
    }
    rows[static_cast<std::size_t>(group.rank())] = store.meet({BoundaryKind::kEpochEnd, Stage::kTrain, 0, 0}, {}).logger_row;
  });
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    REQUIRE(!result.errors[rank]);
    CHECK(rows[rank].at("small") == Approx(0.1).epsilon(1e-10));
    CHECK(rows[rank].at("large") == 1e8 + 0.5);
    CHECK(rows[rank].at("count") == 1e6);
  }
}

TEST_CASE("a step value that one rank logged comes out bit for bit") {
  const std::array<Slot, 2> ranks{Slot{}, Slot{0.1, 3}};
  CHECK(0.1 * 3 / 3 != 0.1);
  CHECK(reduce_step(ranks, Reduce::kMean) == 0.1);
}

TEST_CASE("of which loader a metric is all ranks know alike, also one that has no batch of it") {
  testing::SimulatedRanks simulated;
  std::vector<std::string> known(3);
  const auto result = simulated.run(3, 5, [&](ControlGroup& group) {
    MetricStore store(group, {});
    store.begin_stage(Stage::kTest);
    const auto log = [&](const char* name, const LogOptions& options = {}) { store.log(name, 1, options, kHere); };
    const LogOptions plain{.add_dataloader_idx = false};
    store.enter(Hook::kTestStep);
    // The last rank has no batch at all, and rank 1 none of the second loader.
    for (std::int64_t loader = 0; loader < 2 && group.rank() + loader < 2; ++loader) {
      store.begin_batch({.batch_size = 1, .dataloader_idx = loader, .num_dataloaders = 2});
      log("suffixed");
      log(loader == 0 ? "first" : "second", plain);
      log("both", plain);
      store.end_batch();
    }
    store.meet({BoundaryKind::kEpochReached, Stage::kTest, 0, 0}, {});
    store.enter(Hook::kOnTestEpochEnd);
    log("at_end");
    store.meet({BoundaryKind::kEpochEnd, Stage::kTest, 0, 0}, {});
    for (const char* name : {"suffixed/dataloader_idx_0", "suffixed/dataloader_idx_1", "first", "second", "both", "at_end"}) {
      for (const std::int64_t loader : {0, 1}) known[group.rank()] += store.is_of_loader(name, loader) ? 'x' : '.';
    }
  });
  CHECK_FALSE(result.hung);
  for (const std::exception_ptr& error : result.errors) CHECK(test::error_of(error) == "");
  for (const std::string& of_rank : known) CHECK(of_rank == "x..xx..xxxxx");
}
