#include "levin/callbacks/finders.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/accelerator.h"
#include "levin/core/config/component.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/seed.h"
#include "levin/optim/composed_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

namespace {

/// As in make_finder_references.py, with noise where that is asked for; stores each step's rate and batch size.
struct Sought : Module {
  explicit Sought(double rate = 0.1) : lr(rate) {
    layer->weight.set_data(torch::tensor({{0.5, -0.25}}, torch::kDouble));
    layer->bias.set_data(torch::tensor({0.1}, torch::kDouble));
    to(torch::kDouble);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    if (in_step) in_step(batch.batch_size());
    at::Tensor inputs = norm ? norm->forward(batch["inputs"]) : batch["inputs"];
    if (norm) inputs = torch::dropout(inputs, 0.25, /*train=*/true);
    const at::Tensor loss = torch::mse_loss(layer->forward(inputs), batch["targets"]) - below;
    if (trainer().callback<LambdaCallback>() == nullptr) return loss;
    sizes.push_back(batch.batch_size());
    rates.push_back(get_lrs(optimizer()).front());
    return loss;
  }
  void on_train_start() override { CHECK_FALSE(layer->weight.grad().defined()); }
  OptimizerSetups configure_optimizers() override {
    if (adam) return std::make_shared<torch::optim::Adam>(parameters(), lr);
    const auto sgd = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(lr).momentum(0.5));
    if (!scheduler) return std::make_shared<torch::optim::SGD>(parameters(), lr);
    return {sgd, *scheduler, {.interval = Interval::kStep}};
  }
  void add_noise() { norm = register_module("norm", torch::nn::BatchNorm1d(2)); }

  double lr;
  double below = 0;  ///< what is taken from each loss
  bool adam = false;
  std::optional<SchedulerMaker> scheduler;
  std::function<void(std::int64_t)> in_step;
  std::vector<double> rates;  ///< of the fit, and not of trials
  std::vector<std::int64_t> sizes;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
  torch::nn::BatchNorm1d norm{nullptr};
};

struct SoughtFit : ScriptedRun {
  explicit SoughtFit(std::vector<std::shared_ptr<Callback>> callbacks, std::int64_t epochs = 2)
      : ScriptedRun(epochs, std::move(callbacks)) {
    options.precision = PrecisionFormat::kFloat64;
    options.callbacks.push_back(std::make_shared<LambdaCallback>(LambdaCallbackOptions{}));
  }
  void operator()(Module& module, const LoaderPtr& train, const RunOptions& how = {}) const {
    seed_everything(3);
    Trainer trainer(options);
    trainer.fit(module, train, {}, how);
  }
};

void check_equal(const Module& one, const Module& other) {
  const auto mine = one.named_parameters(), others = other.named_parameters();
  for (const auto& item : mine) CHECK(torch::equal(item.value(), others[item.key()]));
  for (const auto& item : one.named_buffers()) CHECK(torch::equal(item.value(), other.named_buffers()[item.key()]));
}

std::vector<std::int64_t> tried(const BatchSizeFinder& finder) {
  std::vector<std::int64_t> sizes;
  const Value state = finder.state_dict();
  for (const Value& trial : state.at("trials").as_list()) sizes.push_back(trial.at("batch_size").as_int());
  return sizes;
}

using Sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a learning rate finder tries Lightning's rates, and comes to its losses and suggestion") {
  const Value references = parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/finder_references.json"));
  const bool by_rate = GENERATE(true, false);
  for (const Value& reference : references.as_list()) {
    INFO(to_json(reference.at("arguments")));
    Value arguments = reference.at("arguments");
    if (by_rate) arguments["slope_over"] = "rate";
    arguments["update"] = false;
    const auto finder =
        std::dynamic_pointer_cast<LearningRateFinder>(Component<Callback>("LearningRateFinder", arguments).get());
    Sought module;
    module.adam = reference.at("optimizer") == Value("Adam");
    SoughtFit({finder}, 1)(module, waves(60, 4));
    CHECK_THAT(finder->rates(), Catch::Approx(numbers_in(reference.at("lr"))).epsilon(1e-9));
    CHECK_THAT(finder->losses(), Catch::Approx(numbers_in(reference.at("loss"))).epsilon(1e-9));
    CHECK(*finder->suggestion() == Approx(reference.at(by_rate ? "suggestion" : "over_plot").as_double()).epsilon(1e-6));
  }
}

TEST_CASE("a learning rate finder goes through losses below 0 as through others, and ends where they rise") {
  const auto search = [](double below, double max_lr) {
    const auto finder = std::make_shared<LearningRateFinder>(
        LearningRateFinderOptions{.min_lr = 1e-3, .max_lr = max_lr, .num_training_steps = 40, .update = false});
    Sought module;
    module.below = below;
    SoughtFit({finder}, 1)(module, waves(200, 4));
    return finder;
  };
  const auto plain = search(0, 0.5);
  REQUIRE(plain->losses().size() == 40);
  for (const double below : {0.5, 3.0, 100.0}) {
    INFO(below);
    const auto shifted = search(below, 0.5);
    REQUIRE(shifted->losses().size() == 40);
    for (std::size_t step = 0; step < 40; ++step)
      CHECK(shifted->losses()[step] == Approx(plain->losses()[step] - below).margin(1e-9));
    CHECK(*shifted->suggestion() == Approx(*plain->suggestion()));
    CHECK(search(below, 1e8)->losses().size() < 40);
  }
}

TEST_CASE("steps without a loss leave a gap in a learning rate finder, and change nothing else") {
  // Lightning's test_lr_finder_training_step_none_output, the first step too.
  struct WithGaps final : Sought {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      if (has_gaps && (batch_idx == 0 || batch_idx == 12)) return {};
      return Sought::training_step(batch, batch_idx);
    }
    bool has_gaps = false;
  };
  const auto finder = std::make_shared<LearningRateFinder>(
      LearningRateFinderOptions{.min_lr = 1e-6, .max_lr = 1e-2, .num_training_steps = 20, .update = false});
  WithGaps module;
  module.has_gaps = true;
  SoughtFit({finder}, 1)(module, waves(60, 2));
  REQUIRE(finder->losses().size() == 20);
  REQUIRE(finder->rates().size() == 20);
  for (std::size_t step = 0; step < 20; ++step) {
    INFO(step);
    CHECK(std::isnan(finder->losses()[step]) == (step == 0 || step == 12));
  }
  CHECK(finder->suggestion());
}

TEST_CASE("a learning rate finder needs no metric that a schedule of the fit monitors") {
  // Lightning's test_lr_finder_with_early_stopping.
  struct Monitoring final : Sought {
    void validation_step(const Batch& batch, std::int64_t) override {
      log("val_loss", torch::mse_loss(layer->forward(batch["inputs"]), batch["targets"]));
    }
    OptimizerSetups configure_optimizers() override {
      return {std::make_shared<torch::optim::Adam>(parameters(), lr), ReduceLrOnPlateau::Options{}, {.monitor = "val_loss"}};
    }
  } module;
  const auto finder = std::make_shared<LearningRateFinder>(LearningRateFinderOptions{.num_training_steps = 30});
  const auto stopping = std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "val_loss"});
  const SoughtFit fit({finder, stopping}, 2);
  Trainer trainer(fit.options);
  trainer.fit(module, waves(20, 4), {waves(8, 4)});
  CHECK(finder->losses().size() > 5);
  CHECK(trainer.global_step() == 10);
}

TEST_CASE("a fit after finders that update nothing is the fit without them, bit for bit") {
  const auto run = [](std::vector<std::shared_ptr<Callback>> callbacks, Sought& module) {
    module.add_noise();
    module.norm->to(torch::kDouble);
    module.layer->bias.set_requires_grad(false);
    module.norm->eval();
    module.in_step = [steps = 0](std::int64_t rows) mutable {
      TORCH_CHECK_WITH(OutOfMemoryError, rows <= 8 || ++steps != 2, "out of memory");
    };
    const SoughtFit fit(std::move(callbacks));
    fit(module, waves(30, 4, /*shuffle=*/true));
  };
  Sought plain, sought;
  run({}, plain);
  const auto sizes = std::make_shared<BatchSizeFinder>(BatchSizeFinderOptions{.update = false});
  run({std::make_shared<LearningRateFinder>(LearningRateFinderOptions{.num_training_steps = 20, .update = false}), sizes},
      sought);
  CHECK((tried(*sizes) == Sizes{2, 4, 8, 16}));
  CHECK(sought.sizes == plain.sizes);
  CHECK(sought.rates == plain.rates);
  check_equal(sought, plain);
}

TEST_CASE("the fit begins with the rate that was found, and schedules are relative to it") {
  const std::vector<SchedulerMaker> schedules = {
      StepLr::Options{.step_size = 4, .gamma = 0.5}, LinearLr::Options{.start_factor = 0.1, .total_iters = 5},
      CosineAnnealingLr::Options{.T_max = 20}, SchedulerMaker([](torch::optim::Optimizer& optimizer) {
        const auto warmup = std::make_shared<LinearLr>(optimizer, LinearLr::Options{.start_factor = 0.1, .total_iters = 5});
        const auto rest = std::make_shared<ExponentialLr>(optimizer, ExponentialLr::Options{.gamma = 0.9});
        return SequentialLr(optimizer, std::vector<std::shared_ptr<LrScheduler>>{warmup, rest}, {5});
      })};
  const auto index = GENERATE(range(-1, 4));
  const auto with_schedule = [&](Sought& module) {
    if (index >= 0) module.scheduler = schedules[static_cast<std::size_t>(index)];
  };
  Sought sought;
  with_schedule(sought);
  const auto finder = std::make_shared<LearningRateFinder>(LearningRateFinderOptions{.min_lr = 1e-4, .num_training_steps = 40});
  SoughtFit({finder})(sought, waves(30, 4));
  Sought given(*finder->suggestion());
  with_schedule(given);
  SoughtFit({})(given, waves(30, 4));
  REQUIRE(given.rates.size() == 16);
  CHECK_THAT(sought.rates, Catch::Approx(given.rates).epsilon(1e-12));
  if (index < 1) check_equal(sought, given);
}

#if !defined(__SANITIZE_ADDRESS__)  // which keeps what is freed
TEST_CASE(
    "a batch size finder keeps below a limit of memory, and a size that was too large does not count against smaller ones") {
  constexpr std::int64_t kRow = 32 << 20;  // many times what the system takes and gives meanwhile
  const auto fit = [](const BatchSizeFinderOptions& options) {
    Sought module;
    module.in_step = [](std::int64_t rows) { torch::zeros({rows, kRow}, torch::kByte).fill_(1); };
    const auto finder = std::make_shared<BatchSizeFinder>(options);
    SoughtFit({finder}, 1)(module, waves(60, 4));
    return finder;
  };
  // What a first fit maps of libraries, as far as the machine has them in memory, and what it keeps, counts before.
  fit({.max_val = 16});
  clear_memory();
  const std::int64_t limit = process_memory().resident + 11 * kRow;
  const auto finder = fit({.mode = SizeMode::kBinsearch, .memory_limit = static_cast<double>(limit)});
  const std::int64_t found = finder->state_dict().at("batch_size").as_int();
  CHECK(found >= 8);
  CHECK(found <= 12);
  bool failed = false, fits_after = false;
  const Value state = finder->state_dict();
  for (const Value& trial : state.at("trials").as_list()) {
    CHECK(trial.at("fits").as_bool() == (trial.at("peak_bytes").as_int() <= limit));
    fits_after |= failed && trial.at("fits").as_bool();
    failed |= !trial.at("fits").as_bool();
  }
  CHECK(fits_after);
}
#endif

TEST_CASE("a batch size finder needs a loader that can change its size, and a rate finder one optimizer") {
  Sought one;
  CHECK_THROWS_WITH(SoughtFit({std::make_shared<BatchSizeFinder>()}, 1)(one, FixedLoader::of_rows(2, 2)),
                    Catch::Contains("set_batch_size()"));
  struct TwoOptimizers final : Sought {
    OptimizerSetups configure_optimizers() override {
      return {std::make_shared<torch::optim::SGD>(parameters(), 0.1), std::make_shared<torch::optim::SGD>(parameters(), 0.1)};
    }
  } two;
  two.set_automatic_optimization(false);
  CHECK_THROWS_WITH(SoughtFit({std::make_shared<LearningRateFinder>()}, 1)(two, waves(60, 4)),
                    Catch::Contains("this module has 2"));
}

TEST_CASE("a run that resumes one with finders tries nothing, and continues with its size and rates") {
  const auto fit = [](std::int64_t epochs, const RunOptions& how, const TemporaryFolder& folder, Sought& module) {
    const auto sizes = std::make_shared<BatchSizeFinder>(BatchSizeFinderOptions{.max_val = 8});
    const auto rates =
        std::make_shared<LearningRateFinder>(LearningRateFinderOptions{.min_lr = 1e-4, .num_training_steps = 40});
    SoughtFit fit({sizes, rates,
                   std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
                       .dirpath = folder.path(), .save_top_k = -1, .every_n_train_steps = 2, .save_on_train_epoch_end = true})},
                  epochs);
    fit.options.enable_checkpointing = std::nullopt;
    module.scheduler = LinearLr::Options{.start_factor = 0.1, .total_iters = 5};
    fit(module, waves(30, 4, /*shuffle=*/true), how);
    CHECK((tried(*sizes) == Sizes{2, 4, 8}));
    CHECK(rates->state_dict().at("lr").size() > 20);
  };
  const TemporaryFolder folder, others;
  Sought whole;
  fit(3, {}, folder, whole);
  REQUIRE((whole.sizes == Sizes{8, 8, 8, 6, 8, 8, 8, 6, 8, 8, 8, 6}));
  for (const std::int64_t step : {2, 4, 6}) {
    Sought resumed;
    resumed.in_step = [](std::int64_t rows) { CHECK(rows > 4); };
    fit(3, {.ckpt_path = folder / ("epoch=" + std::to_string((step - 1) / 4) + "-step=" + std::to_string(step) + ".ckpt")},
        others, resumed);
    CHECK(resumed.rates == std::vector<double>(whole.rates.begin() + step, whole.rates.end()));
    check_equal(resumed, whole);
  }
}
