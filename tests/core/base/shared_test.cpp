// Optimizers, schedulers, loaders, datasets, callbacks and loggers that are given as they are, without make_shared.
#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// A line with a parameter that is not trained; `form` gives its optimizers.
struct Line : ScriptedLine {
  using Form = std::function<OptimizerSetups(Line&)>;
  static OptimizerSetups sgd(Line& line) { return levin::SGD(line.parameters(), 0.5); }
  explicit Line(Form form = sgd) : form_(std::move(form)) {
    on["validation_step"] = [](ScriptedLine& line, std::int64_t) { line.log("val_loss", 1.0); };
  }
  OptimizerSetups configure_optimizers() override { return form_(*this); }

  at::Tensor other = register_parameter("other", torch::zeros({1}), /*requires_grad=*/false);

 private:
  Form form_;
};

DataLoader ones(std::int64_t count) { return DataLoader(TensorDataset({{"x", torch::ones({count})}})); }

/// The Trainer after two epochs of two batches; the module lives as long.
struct FittedLine {
  explicit FittedLine(const Line::Form& form) : module(form) {
    trainer.fit(module, ones(2), ones(1));
    CHECK(module.seen.size() == 4);
  }
  double lr() const { return get_lrs(*trainer.optimizers().at(0)).at(0); }
  const SchedulerConfig& scheduler() const { return trainer.scheduler_configs().at(0); }

  Line module;
  Trainer trainer{TrainerOptions{.max_epochs = 2, .quiet = true}};
};

/// An optimizer of a user's, with a destructor.
struct OwnSgd : torch::optim::SGD {
  OwnSgd(std::vector<at::Tensor> parameters, double lr) : SGD(std::move(parameters), lr) {}
  OwnSgd(OwnSgd&&) = default;
  ~OwnSgd() override = default;
};

struct CountsEpochs : Callback {
  explicit CountsEpochs(int& count) : count_(count) {}
  void on_train_epoch_end(Trainer&, Module&) override { ++count_; }
  int& count_;
};
struct Rows : Logger {
  explicit Rows(int& count) : count_(count) {}
  void log_metrics(const MetricRow&) override { ++count_; }
  int& count_;
};

std::vector<double> values(BatchLoader& loader, std::int64_t epoch = 0) {
  std::vector<double> all;
  loader.start_epoch(epoch);
  while (const auto batch = loader.next()) {
    for (const at::Tensor& value : (*batch)[0].unbind()) all.push_back(value.item<double>());
  }
  return all;
}

}  // namespace

TEST_CASE("an optimizer is returned as it is") {
  const auto weight_after = [](const auto& make) {
    const FittedLine fitted([&](Line& line) -> OptimizerSetups { return make(line.parameters()); });
    return fitted.module.value();
  };
  CHECK(weight_after([](const auto& parameters) { return levin::SGD(parameters, 0.5); }) == Approx(-2.0));
  CHECK(weight_after([](const auto& parameters) { return OwnSgd(parameters, 0.25); }) == Approx(-1.0));
  CHECK(weight_after([](const auto& parameters) { return torch::optim::SGD(parameters, 0.25); }) == Approx(-1.0));
  CHECK(weight_after([](const auto& parameters) { return Lion(parameters, {.lr = 0.5}); }) == Approx(-2.0));
  CHECK(weight_after([](const auto& parameters) { return std::make_unique<levin::AdamW>(parameters, 0.5); }) ==
        Approx(-2.0).margin(0.1));
  const FittedLine several([](Line& line) -> OptimizerSetups {
    line.set_automatic_optimization(false);
    return {levin::SGD({line.weight}, 0.5), std::make_shared<levin::Adam>(std::vector{line.other}, 0.25)};
  });
  REQUIRE(several.trainer.optimizers().size() == 2);
  CHECK(dynamic_cast<levin::SGD*>(several.trainer.optimizers()[0].get()) != nullptr);
}

TEST_CASE("optimizers that are shared stand alone or in lists, each with its scheduler and settings or without") {
  using Sgd = std::shared_ptr<torch::optim::SGD>;
  using Adam = std::shared_ptr<torch::optim::Adam>;
  using Scheduler = std::shared_ptr<StepLr>;
  using Schedules = std::vector<std::pair<Interval, std::int64_t>>;
  const auto check = [](std::size_t optimizers, const Schedules& schedules,
                        const std::function<OptimizerSetups(Sgd, Adam, Scheduler)>& form) {
    Sgd sgd;
    Adam adam;
    Scheduler scheduler;
    const FittedLine fitted([&](Line& line) {
      line.set_automatic_optimization(optimizers == 1);
      sgd = std::make_shared<torch::optim::SGD>(std::vector{line.weight}, 0.5);
      adam = std::make_shared<torch::optim::Adam>(std::vector{line.other}, 0.25);
      scheduler = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1});
      return form(sgd, adam, scheduler);
    });
    REQUIRE(fitted.trainer.optimizers().size() == optimizers);
    CHECK(fitted.trainer.optimizers()[0] == sgd);
    if (optimizers == 2) CHECK(fitted.trainer.optimizers()[1] == adam);
    Schedules found;
    for (const SchedulerConfig& config : fitted.trainer.scheduler_configs()) {
      CHECK(config.scheduler == scheduler);
      found.emplace_back(config.interval, config.frequency);
    }
    CHECK((found == schedules));
  };
  check(1, {}, [](Sgd sgd, Adam, Scheduler) -> OptimizerSetups { return sgd; });
  check(1, {}, [](Sgd sgd, Adam, Scheduler) -> OptimizerSetups { return {sgd}; });
  check(2, {}, [](Sgd sgd, Adam adam, Scheduler) -> OptimizerSetups { return {sgd, adam}; });
  check(2, {}, [](Sgd sgd, Adam adam, Scheduler) -> OptimizerSetups { return {{sgd, adam}}; });
  check(2, {}, [](Sgd sgd, Adam adam, Scheduler) -> OptimizerSetups { return {{sgd}, {adam}}; });
  const Schedules each_epoch = {{Interval::kEpoch, 1}};
  check(1, each_epoch, [](Sgd sgd, Adam, Scheduler scheduler) -> OptimizerSetups { return {sgd, scheduler}; });
  check(2, each_epoch, [](Sgd sgd, Adam adam, Scheduler scheduler) -> OptimizerSetups { return {{sgd, scheduler}, {adam}}; });
  check(2, {{Interval::kStep, 1}}, [](Sgd sgd, Adam adam, Scheduler scheduler) -> OptimizerSetups {
    return {{sgd, {{.scheduler = scheduler, .interval = Interval::kStep}}}, {adam}};
  });
  check(1, {{Interval::kStep, 3}}, [](Sgd sgd, Adam, Scheduler scheduler) -> OptimizerSetups {
    return {sgd, {{.scheduler = scheduler, .interval = Interval::kStep, .frequency = 3}}};
  });
}

TEST_CASE("a scheduler is made of its options, or by a function, of the optimizer that it is given with") {
  const auto fitted = [](const SchedulerMaker& scheduler, const SchedulerConfig& when = {}) {
    return std::make_unique<FittedLine>([=](Line& line) -> OptimizerSetups {
      return {levin::SGD(line.parameters(), 0.5), scheduler, when};
    });
  };
  const StepLr::Options halves{.step_size = 1, .gamma = 0.5};
  CHECK(fitted(halves)->scheduler().interval == Interval::kEpoch);
  CHECK(fitted(halves)->module.value() == Approx(-1.5));
  using Row = std::pair<SchedulerConfig, double>;
  for (const auto& [when, lr] :
       {Row{{}, 0.125}, Row{{.interval = Interval::kStep}, 0.03125}, Row{{.interval = Interval::kStep, .frequency = 2}, 0.125},
        Row{{.interval = Interval::kEpoch, .frequency = 2}, 0.25}}) {
    CHECK(fitted(halves, when)->lr() == Approx(lr));
  }
  const ReduceLrOnPlateau::Options plateau{.factor = 0.5, .patience = 0};
  CHECK(fitted(plateau, {.monitor = "val_loss"})->lr() == Approx(0.25));
  CHECK(fitted(plateau, {.monitor = "gain", .strict = false})->lr() == 0.5);
  CHECK_THROWS_WITH(fitted(plateau, {.monitor = "gain"}),
                    Catch::Contains("A learning-rate scheduler monitors 'gain', which no rank has logged. "
                                    "Logged so far: val_loss."));
  const FittedLine cycle([](Line& line) -> OptimizerSetups {
    return {levin::AdamW(line.parameters(), 0.5),
            OneCycleLr::Options{.max_lr = 0.1, .total_steps = 10},
            {.interval = Interval::kStep}};
  });
  CHECK(dynamic_cast<OneCycleLr*>(cycle.scheduler().scheduler.get()) != nullptr);
  const auto function = [](auto& optimizer) {
    return LambdaLr(optimizer, [](std::int64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); });
  };
  CHECK(fitted(function)->lr() == Approx(0.5 / 3));
  const FittedLine nested([](Line& line) -> OptimizerSetups {
    line.set_automatic_optimization(false);
    return {{levin::SGD({line.weight}, 0.5), StepLr::Options{.step_size = 1}, {.frequency = 3}},
            {levin::SGD({line.other}, 0.5)}};
  });
  CHECK(nested.trainer.optimizers().size() == 2);
  CHECK(nested.scheduler().frequency == 3);
  CHECK(nested.lr() == 0.5);  // under manual optimization schedules are the module's business
  CHECK(&nested.scheduler().scheduler->optimizer() == nested.trainer.optimizers().at(0).get());
}

TEST_CASE("loaders and datasets are given as they are") {
  const at::Tensor numbers = torch::arange(6, torch::kDouble);
  const auto add_ten = [](Batch batch) { return Batch{{"x", batch["x"] + 10}}; };
  LoaderPtr loader = DataLoader(TransformDataset(Subset(TensorDataset({{"x", numbers}}), {4, 1}), add_ten), {.batch_size = 2});
  CHECK(values(*loader) == std::vector<double>{14, 11});
  const auto parts = random_split(TensorDataset({{"x", numbers}, {"y", numbers}}), std::vector<double>{0.5, 0.5}, 1);
  REQUIRE(parts.size() == 2);
  LoaderPtr first = DataLoader(parts[0], {.batch_size = 3});
  CHECK(values(*first).size() == 3);
  loader = CombinedLoader({{"a", DataLoader(TensorDataset({{"x", numbers}}))}, {"b", first}}, CombineMode::kSequential);
  CHECK(values(*loader).size() == 9);
  loader = FixedLoader({Batch{{"x", numbers}}});  // of a user's
  CHECK(values(*loader).size() == 6);
  loader = std::make_unique<FixedLoader>(std::vector<Batch>{});
  CHECK(values(*loader).empty());
  loader = nullptr;
  CHECK(loader == nullptr);

  const LoaderList lists[] = {first,
                              {first},
                              ones(1),
                              {ones(1), first},
                              {FixedLoader::of_rows(1, 1), ones(1), first},
                              std::vector<std::shared_ptr<BatchLoader>>{first},
                              {}};
  std::vector<std::size_t> sizes;
  for (const LoaderList& list : lists) sizes.push_back(list.size());
  CHECK(sizes == std::vector<std::size_t>{1, 1, 1, 2, 3, 1, 0});

  Line module;
  Trainer trainer({.max_epochs = 1, .quiet = true});
  CHECK(trainer.validate(module, {ones(1), ones(2)}).size() == 2);
  CHECK(trainer.validate(module, ones(3)).at(0).at("val_loss") == Approx(1));
}

TEST_CASE("callbacks and loggers are given as they are") {
  const TemporaryFolder folder;
  int epochs = 0;
  int rows = 0;
  TrainerOptions options{.max_epochs = 3,
                         .logger = {CsvLogger({.save_dir = folder / "logs"}), Rows(rows)},
                         .callbacks = {EarlyStopping({.monitor = "val_loss", .patience = 1}), CountsEpochs(epochs),
                                       LambdaCallback({.on_fit_end = [&](Trainer&, Module&) { epochs += 10; }}),
                                       ModelCheckpoint({.dirpath = folder / "saved"})},
                         .quiet = true};
  Line module;
  Trainer(options).fit(module, ones(1), ones(1));
  CHECK(epochs == 12);
  CHECK(rows == 2);
  CHECK(std::filesystem::exists(folder / "saved"));
  options.logger = Rows(rows);
  Trainer alone(options);
  CHECK(alone.loggers().size() == 1);
}

TEST_CASE("a quiet Trainer has no bar, summary, logger and checkpoints, and shows warnings only") {
  const TemporaryFolder folder;
  TrainerOptions options{.max_epochs = 1, .quiet = true, .default_root_dir = folder / "root", .log_file = folder / "log"};
  Line module;
  {
    Trainer trainer(options);
    CHECK(trainer.callbacks().empty());
    CHECK(trainer.loggers().empty());
    trainer.fit(module, ones(2), ones(1));
    trainer.validate(module, ones(1));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "root"));
  CHECK((!std::filesystem::exists(folder / "log") || std::filesystem::file_size(folder / "log") == 0));
  options.enable_progress_bar = true;
  options.logger = CsvLogger({.save_dir = folder / "asked"});
  Trainer trainer(options);
  CHECK(trainer.callbacks().size() == 1);
  CHECK(trainer.loggers().size() == 1);
}
