// Results of estimated_stepping_batches() before training begins. Their use by schedules: tests/acceptance/cases/schedules.txt.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

using Numbers = std::vector<std::int64_t>;

/// Ten batches, or so many; counts how often it is asked for them, and notes what was estimated in each hook.
struct Estimating final : ScriptedLine {
  explicit Estimating(int batches = 10, bool knows_size = true) : loader(counted(batches, 1, knows_size)) {
    optimizers = [this](auto& self) -> OptimizerSetups {
      if (in_configure) note();
      return std::make_shared<torch::optim::SGD>(self.parameters(), 1.0);
    };
    on["on_train_start"] = [this](auto&, auto) { note(); };
  }
  void setup(Stage) override {
    if (in_setup) note();
  }
  LoaderPtr train_dataloader() override {
    ++asked;
    if (in_loader) note();
    return loader;
  }
  void note() { estimates.push_back(trainer().estimated_stepping_batches()); }

  int asked = 0;
  bool in_setup = false, in_configure = true, in_loader = false;
  Numbers estimates;
  LoaderPtr loader;
};

}  // namespace

TEST_CASE("configure_optimizers knows how many steps training will take") {
  // In configure_optimizers and in on_train_start, and the steps that were taken in the end.
  const auto check = [](const TrainerOptions& options, const Numbers& expected, bool knows_size = true) {
    Estimating module(10, knows_size);
    Trainer trainer(quiet(options));
    trainer.fit(module);
    CHECK(module.asked == 1);
    module.estimates.push_back(trainer.global_step());
    CHECK(module.estimates == expected);
  };
  check({.max_epochs = 3}, {30, 30, 30});
  check({.max_epochs = 3, .limit_train_batches = Limit(4)}, {12, 12, 12});
  check({.max_epochs = 3, .limit_train_batches = Limit(0.4)}, {12, 12, 12});
  check({.max_epochs = 3, .accumulate_grad_batches = 4}, {9, 9, 9});
  // With the accumulation at the beginning.
  check({.max_epochs = 3, .callbacks = {GradientAccumulationScheduler({.scheduling = {{0, 4}}})}}, {9, 9, 9});
  check({.max_epochs = 3, .max_steps = 7}, {7, 7, 7});
  check({.max_epochs = -1, .max_steps = 7}, {7, 7, 7});
  check({.max_epochs = 3, .overfit_batches = 2}, {6, 6, 6});
  check({.max_epochs = 3, .fast_dev_run = 2}, {2, 2, 2});
  // Loaders that do not know their length.
  check({.max_epochs = 2, .limit_train_batches = 4}, {8, 8, 8}, /*knows_size=*/false);
  check({.max_epochs = 3}, {-1, -1, 30}, /*knows_size=*/false);
}

TEST_CASE("an estimate makes the loader, once; without one it is made where it always was") {
  Estimating module;
  SECTION("setup() and configure_optimizers estimate") {
    module.in_setup = true;
    Trainer(quiet_options(2)).fit(module);
    CHECK(module.estimates == Numbers{20, 20, 20});
    CHECK(module.asked == 1);
  }
  SECTION("nobody does") {
    module.in_configure = false;
    int asked_before = -1;
    module.on["on_fit_start"] = [&](auto&, auto) { asked_before = module.asked; };
    Trainer(quiet_options(2)).fit(module);
    CHECK(asked_before == 0);
    CHECK(module.asked == 1);
  }
  SECTION("train_dataloader() does itself") {
    module.in_loader = true;
    Trainer(quiet_options(2)).fit(module);
    CHECK(module.estimates == Numbers{-1, 20, 20});
  }
  SECTION("the next fit makes its own") {
    Trainer trainer(quiet_options(2));
    trainer.fit(module);
    Estimating other(3);
    trainer.fit(other);
    CHECK(other.estimates.front() == 6);
  }
  SECTION("a loader that is reloaded every epoch is made as often") {
    const TrainerOptions options = quiet({.max_epochs = 3, .reload_dataloaders_every_n_epochs = 1});
    Estimating without;
    without.in_configure = false;
    Trainer(options).fit(module);
    Trainer(options).fit(without);
    CHECK(module.asked == without.asked);
  }
}

TEST_CASE("an estimate without training data is an error that says what is missing") {
  Estimating module;
  module.loader = nullptr;
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(module),
                    Catch::Contains("configure_optimizers (train, epoch 0, step 0): fit needs training data"));
}

TEST_CASE("a resumed run asks for its loader after the data module has its state back") {
  struct Counted final : DataModule {
    explicit Counted(int first) : batches(first) {}
    LoaderPtr train_dataloader() override { return counted(static_cast<int>(batches)); }
    Value state_dict() const override { return Value(Value::Map{{"batches", Value(batches)}}); }
    void load_state_dict(const Value& state) override { batches = state.at("batches").as_int(); }
    std::int64_t batches;
  } data(5), other(3);
  const TemporaryFolder folder;
  Estimating module, resumed;
  module.in_setup = resumed.in_setup = true;
  Trainer trainer(quiet_options(1));
  module.on["on_train_end"] = [&](auto&, auto) { trainer.save_checkpoint(folder / "end.ckpt"); };
  trainer.fit(module, data);
  Trainer longer(quiet_options(2));
  longer.fit(resumed, other, {.ckpt_path = folder / "end.ckpt"});
  CHECK(resumed.estimates == Numbers{10, 10, 10});
  CHECK(longer.global_step() == 10);
}
