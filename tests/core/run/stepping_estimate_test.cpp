// Results of estimated_stepping_batches() before training begins, and their use by schedulers made by name.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Ten batches, or so many; counts how often it is asked for them, and remembers what was estimated in each hook.
class EstimatingModule : public RecordingModule {
 public:
  EstimatingModule(HookTrace& trace, std::int64_t batches = 10, bool knows_size = true)
      : RecordingModule(trace), loader(FixedLoader::of_rows(batches, 1, knows_size)) {}

  LoaderPtr train_dataloader() override {
    ++asked;
    if (estimates_in_loader) estimates.push_back(trainer().estimated_stepping_batches());
    return loader;
  }
  void setup(Stage stage) override {
    if (estimates_in_setup) estimates.push_back(trainer().estimated_stepping_batches());
    RecordingModule::setup(stage);
  }
  OptimizerSetups make_optimizers() override {
    if (estimates_in_configure) estimates.push_back(trainer().estimated_stepping_batches());
    return RecordingModule::make_optimizers();
  }
  void on_train_start() override { estimates.push_back(trainer().estimated_stepping_batches()); }

  int asked = 0;
  bool estimates_in_setup = false, estimates_in_configure = true, estimates_in_loader = false;
  std::vector<std::int64_t> estimates;
  LoaderPtr loader;
};

/// In configure_optimizers and in on_train_start, and the steps that were taken in the end.
std::vector<std::int64_t> estimates(const TrainerOptions& options, std::int64_t batches = 10, bool knows_size = true) {
  HookTrace trace;
  EstimatingModule module(trace, batches, knows_size);
  Trainer trainer(options);
  trainer.fit(module);
  CHECK(module.asked == 1);
  module.estimates.push_back(trainer.global_step());
  return module.estimates;
}

using Numbers = std::vector<std::int64_t>;

std::shared_ptr<LrSchedulerFactory> scheduler_of(const char* name, Value init_args = Value(Value::Map{})) {
  return Registry<LrSchedulerFactory>::instance().make(Value(name), init_args);
}

Value settings_of(const char* interval, std::int64_t frequency = 1) {
  Value settings(Value::Map{{"interval", Value(interval)}, {"frequency", Value(frequency)}});
  settings.set_mark(Mark{"run.yaml", 7, 3});
  return settings;
}

Value state_after_fit(const TrainerOptions& options, const std::shared_ptr<LrSchedulerFactory>& scheduler,
                      const Value& settings, bool knows_size = true) {
  HookTrace trace;
  EstimatingModule module(trace, 10, knows_size);
  Trainer trainer(options);
  const Value sgd(Value::Map{{"lr", Value(0.1)}, {"momentum", Value(0.9)}});
  trainer.override_optimizers(Registry<OptimizerFactory>::instance().make(Value("SGD"), sgd), scheduler, settings);
  trainer.fit(module);
  return trainer.scheduler_configs().at(0).scheduler->state_dict();
}

}  // namespace

TEST_CASE("configure_optimizers knows how many steps training will take") {
  const auto check = [](const TrainerOptions& options, std::int64_t steps) {
    CHECK(estimates(quiet(options)) == Numbers{steps, steps, steps});
  };
  check({.max_epochs = 3}, 30);
  check({.max_epochs = 3, .limit_train_batches = Limit(4)}, 12);
  check({.max_epochs = 3, .limit_train_batches = Limit(0.4)}, 12);
  check({.max_epochs = 3, .accumulate_grad_batches = 4}, 9);
  // With what it begins with.
  check({.max_epochs = 3, .callbacks = {GradientAccumulationScheduler({.scheduling = {{0, 4}}})}}, 9);
  check({.max_epochs = 3, .max_steps = 7}, 7);
  check({.max_epochs = -1, .max_steps = 7}, 7);
  check({.max_epochs = 3, .overfit_batches = 2}, 6);
  check({.max_epochs = 3, .fast_dev_run = 2}, 2);
  // Loaders that do not know their length.
  CHECK(estimates(quiet({.max_epochs = 2, .limit_train_batches = 4}), 10, /*knows_size=*/false) == Numbers{8, 8, 8});
  CHECK(estimates(quiet_options(3), 10, /*knows_size=*/false) == Numbers{-1, -1, 30});
}

TEST_CASE("whoever asks gets the loader made, once; it is made where it always was when nobody asks") {
  HookTrace trace;
  EstimatingModule module(trace);
  SECTION("setup() and configure_optimizers ask") {
    module.estimates_in_setup = true;
    Trainer(quiet_options(2)).fit(module);
    CHECK(module.estimates == Numbers{20, 20, 20});
    CHECK(module.asked == 1);
  }
  SECTION("nobody asks") {
    module.estimates_in_configure = false;
    bool was_asked_for = true;
    trace.on_entry = [&](const std::string& entry) {
      if (entry == "M.on_fit_start") was_asked_for = module.asked > 0;
    };
    Trainer(quiet_options(2)).fit(module);
    CHECK_FALSE(was_asked_for);
    CHECK(module.asked == 1);
  }
  SECTION("train_dataloader() asks itself") {
    module.estimates_in_loader = true;
    Trainer(quiet_options(2)).fit(module);
    CHECK(module.estimates == Numbers{-1, 20, 20});
  }
  SECTION("the next fit asks anew") {
    Trainer trainer(quiet_options(2));
    trainer.fit(module);
    EstimatingModule other(trace, 3);
    trainer.fit(other);
    CHECK(other.estimates.front() == 6);
  }
  SECTION("a loader that is made anew every epoch is made as often as when nobody asks") {
    const TrainerOptions options = quiet({.max_epochs = 3, .reload_dataloaders_every_n_epochs = 1});
    Trainer(options).fit(module);
    EstimatingModule quiet(trace);
    quiet.estimates_in_configure = false;
    Trainer(options).fit(quiet);
    CHECK(module.asked == quiet.asked);
  }
}

TEST_CASE("without training data, who asks how long training is hears what is missing") {
  HookTrace trace;
  EstimatingModule module(trace);
  module.loader = nullptr;
  Trainer trainer(quiet_options(1));
  CHECK_THROWS_WITH(trainer.fit(module),
                    Catch::Contains("configure_optimizers (train, epoch 0, step 0): fit needs training data"));
}

TEST_CASE("a resumed run asks for its loader after the data module has its state back") {
  struct Counted final : DataModule {
    LoaderPtr train_dataloader() override { return FixedLoader::of_rows(batches, 1); }
    Value state_dict() const override { return Value(Value::Map{{"batches", Value(batches)}}); }
    void load_state_dict(const Value& state) override { batches = state.at("batches").as_int(); }
    std::int64_t batches = 3;
  };
  const TemporaryFolder folder;
  HookTrace trace;
  EstimatingModule module(trace);
  module.estimates_in_setup = true;
  Counted data;
  data.batches = 5;
  Trainer trainer(quiet_options(1));
  trace.on_entry = [&](const std::string& entry) {
    if (entry == "M.on_train_end") trainer.save_checkpoint(folder / "end.ckpt");
  };
  trainer.fit(module, data);
  trace.on_entry = nullptr;

  EstimatingModule resumed(trace);
  resumed.estimates_in_setup = true;
  Counted other;
  Trainer longer(quiet_options(2));
  longer.fit(resumed, other, {.ckpt_path = (folder / "end.ckpt").string()});
  CHECK(resumed.estimates == Numbers{10, 10, 10});
  CHECK(longer.global_step() == 10);
}

TEST_CASE("a schedule whose length is left out takes all of training") {
  const auto state_of = [](const char* name, const Value& settings, Value::Map init_args = {}) {
    return state_after_fit(quiet_options(3), scheduler_of(name, Value(std::move(init_args))), settings);
  };
  CHECK(state_of("CosineAnnealingLR", settings_of("epoch")).at("T_max") == Value(3));
  CHECK(state_of("CosineAnnealingLR", settings_of("step")).at("T_max") == Value(30));
  CHECK(state_of("PolynomialLR", settings_of("step", 5)).at("total_iters") == Value(6));
  const Value one_cycle = state_of("OneCycleLR", settings_of("step"), {{"max_lr", Value(1.0)}});
  CHECK(one_cycle.at("total_steps") == Value(30));
  CHECK(one_cycle.at("last_epoch") == Value(30));
  CHECK(state_of("LinearLR", settings_of("step")).at("total_iters") == Value(5));
  CHECK(state_of("ConstantLR", settings_of("step")).at("total_iters") == Value(5));
  CHECK(state_of("WarmupCosineLR", settings_of("step")).at("total_steps") == Value(30));
  CHECK(state_of("CosineAnnealingLR", settings_of("step"), {{"T_max", Value(4)}}).at("T_max") == Value(4));
}

TEST_CASE("the last schedule of a sequence takes what the milestones leave") {
  const auto member = [](const char* name) { return Value(Value::Map{{"class_path", Value(name)}}); };
  const Value sequence(Value::Map{
      {"schedulers", Value(Value::List{member("LinearLR"), member("CosineAnnealingLR"), member("CosineAnnealingLR")})},
      {"milestones", Value(Value::List{5, 12})}});
  const Value state = state_after_fit(quiet_options(3), scheduler_of("SequentialLR", sequence), settings_of("step"));
  CHECK(state.at("_schedulers").as_list().at(0).at("total_iters") == Value(5));
  CHECK(state.at("_schedulers").as_list().at(1).at("T_max") == Value(7));
  CHECK(state.at("_schedulers").as_list().at(2).at("T_max") == Value(18));
}

TEST_CASE("a schedule whose length is left out, in a training of unknown length, is an error at its place") {
  TrainerOptions unlimited = quiet_options(-1);
  unlimited.max_time = std::chrono::hours(1);
  const auto check = [](const TrainerOptions& options, const char* interval, bool knows_size) {
    CHECK_THROWS_WITH(state_after_fit(options, scheduler_of("CosineAnnealingLR"), settings_of(interval), knows_size),
                      Catch::StartsWith("run.yaml:7:3: CosineAnnealingLR: T_max is not set") && Catch::EndsWith("Set T_max."));
  };
  check(unlimited, "epoch", /*knows_size=*/true);
  check(quiet_options(3), "step", /*knows_size=*/false);
}
