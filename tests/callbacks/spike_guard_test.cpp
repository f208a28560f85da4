#include "levin/callbacks/spike_guard.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/spike_detection.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/composed_lr_schedulers.h"
#include "levin/optim/cyclic_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"

using namespace levin;
using namespace levin::test;

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr SpikeGuardOptions kSensitive{.window = 8, .warmup = 4, .threshold_loss = 10, .threshold_gradient_norm = 10};

/// A regression with statistics. `steep` of a batch is a gradient that the loss does not show.
class GuardedModule final : public Module {
 public:
  explicit GuardedModule(bool manual = false) {
    torch::manual_seed(3);
    layer_ = register_module("layer", torch::nn::Linear(2, 1));
    to(torch::kDouble);
    set_automatic_optimization(!manual);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor& weight = layer_->weight;
    at::Tensor loss = torch::mse_loss(layer_->forward(norm_->forward(batch["x"])), batch["y"]) +
                      (batch["steep"] * (weight - weight.detach())).sum();
    if (trainer().fitting() && global_step() == spikes_at) loss = loss + 1e6;
    if (automatic_optimization()) return loss;
    optimizer().zero_grad();
    manual_backward(loss);
    step_optimizer();
    return {};
  }
  OptimizerSetups configure_optimizers() override {
    const auto adam = std::make_shared<torch::optim::Adam>(parameters(), 0.01);
    if (!schedule) return adam;
    return {adam, *schedule, {.interval = levin::Interval::kStep}};
  }

  std::optional<SchedulerMaker> schedule;
  std::int64_t spikes_at = -1;  ///< a step whose loss leaps, whatever its batch

 private:
  torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(2));
  torch::nn::Linear layer_{nullptr};
};

std::vector<Batch> good_batches(std::int64_t count) {
  std::vector<Batch> batches;
  for (std::int64_t index = 0; index < count; ++index) {
    const at::Tensor x = torch::arange(8, torch::kDouble).add(8 * index).sin().reshape({4, 2});
    batches.push_back(Batch{{"x", x}, {"y", 5 + x.sum(1, true)}, {"steep", torch::zeros({4, 1}, torch::kDouble)}});
  }
  return batches;
}

/// Replaces a part of a batch by one number.
void plant(Batch& batch, const std::string& part, double value) { batch.set(part, torch::full_like(batch[part], value)); }

std::vector<Batch> without(std::vector<Batch> batches, std::int64_t first, std::int64_t last) {
  batches.erase(batches.begin() + first, batches.begin() + last + 1);
  return batches;
}

struct GuardedFit {
  explicit GuardedFit(std::vector<std::shared_ptr<Callback>> callbacks = {}) : run(1, std::move(callbacks)) {
    run.options.precision = PrecisionFormat::kFloat64;
    run.options.logger = logger;
    run.options.log_every_n_steps = 1;
  }
  /// Weights, buffers and optimizer state at the end. `from`: the fit from whose end this one resumes; null: none.
  std::map<std::string, at::Tensor> operator()(std::vector<Batch> batches, const GuardedFit* from = nullptr) {
    Trainer trainer(run.options);
    RunOptions how;
    if (from != nullptr) how.ckpt_path = (from->run.folder / "end.ckpt").string();
    trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)), {}, how);
    trainer.save_checkpoint(run.folder / "end.ckpt");
    Checkpoint end = Checkpoint::load(run.folder / "end.ckpt");
    std::erase_if(end.tensors, [](const auto& entry) {
      return !entry.first.starts_with("state_dict.") && !entry.first.starts_with("optimizer_states.");
    });
    rates = get_lrs(*trainer.optimizers().front());
    return std::move(end.tensors);
  }

  std::shared_ptr<RowsOf> logger = std::make_shared<RowsOf>();
  ScriptedRun run;
  GuardedModule module;
  std::vector<double> rates;
};

void check_same(const std::map<std::string, at::Tensor>& one, const std::map<std::string, at::Tensor>& other) {
  REQUIRE(one.size() == other.size());
  REQUIRE(one.size() > 8);
  for (const auto& [name, tensor] : one) {
    INFO(name << " " << tensor << " " << other.at(name));
    CHECK(tensor.equal(other.at(name)));
  }
}

std::shared_ptr<SpikeGuard> guard_with(const std::function<void(SpikeGuardOptions&)>& change) {
  SpikeGuardOptions options = kSensitive;
  change(options);
  return std::make_shared<SpikeGuard>(options);
}
std::shared_ptr<SpikeGuard> guard_that(SpikeAction action, std::int64_t every_n_steps = 100, double lr_factor = 1) {
  return guard_with([&](SpikeGuardOptions& options) {
    options.action = action;
    options.every_n_steps = every_n_steps;
    options.lr_factor = lr_factor;
  });
}

/// Calls `change` after each batch.
std::shared_ptr<Callback> after_batches(std::function<void(torch::optim::OptimizerParamGroup&, std::int64_t)> change) {
  return std::make_shared<LambdaCallback>(
      LambdaCallbackOptions{.on_train_batch_end = [change = std::move(change)](Trainer& trainer, Module&, const StepOutput&,
                                                                               const Batch&, std::int64_t batch_idx) {
        change(trainer.optimizers().front()->param_groups().front(), batch_idx);
      }});
}

}  // namespace

TEST_CASE("a step that spikes is left out to the bit, with its buffers, whatever leaps and however steps are taken") {
  const auto [part, value] = GENERATE(table<std::string, double>(
      {{"y", 1e4}, {"x", kNotANumber}, {"steep", 1e5}, {"y", std::numeric_limits<double>::infinity()}}));
  const auto [manual, accumulate] = GENERATE(table<bool, int>({{false, 1}, {true, 1}, {false, 2}}));
  INFO(part << " " << value << " " << manual << " " << accumulate);
  std::vector<Batch> batches = good_batches(24);
  plant(batches[15], part, value);
  const auto guard = guard_with([&, part = part](SpikeGuardOptions& options) {
    if (part != "steep") options.threshold_gradient_norm.reset();
    if (part == "steep") options.threshold_loss.reset();
  });
  const auto fit = [&, manual = manual, accumulate = accumulate](GuardedFit& run, std::vector<Batch> its_batches) {
    run.module.set_automatic_optimization(!manual);
    run.run.options.accumulate_grad_batches = accumulate;
    return run(std::move(its_batches));
  };
  GuardedFit guarded({guard});
  GuardedFit plain;
  check_same(fit(guarded, batches), fit(plain, without(batches, 16 - accumulate, 15)));
  CHECK(guard->spikes() == std::vector<std::int64_t>{15 / accumulate});
  std::vector<double> column;
  for (const MetricRow& row : guarded.logger->rows) column.push_back(row.values.at("SpikeGuard/skipped"));
  std::vector<double> expected(static_cast<std::size_t>(24 / accumulate), 0.0);
  std::fill(expected.begin() + 15 / accumulate, expected.end(), 1.0);
  CHECK(column == expected);
}

TEST_CASE("a guard that warns, or finds nothing, changes nothing") {
  const SpikeAction action = GENERATE(SpikeAction::kWarn, SpikeAction::kSkip, SpikeAction::kRollback);
  std::vector<Batch> batches = good_batches(20);
  if (action == SpikeAction::kWarn) plant(batches[15], "steep", 1e5);
  const auto guard = guard_that(action, 1);
  GuardedFit guarded({guard});
  check_same(guarded(batches), GuardedFit()(batches));
  CHECK(guard->spikes().size() == (action == SpikeAction::kWarn ? 1 : 0));
  CHECK(guard->skipped() + guard->rollbacks() == 0);
}

TEST_CASE("a rollback goes back to weights, optimizer and schedule of the last good state, and continues with the next batch") {
  const double factor = GENERATE(1.0, 0.5);
  std::vector<Batch> batches = good_batches(24);
  plant(batches[14], "y", 1e4);
  plant(batches[15], "x", kNotANumber);
  plant(batches[21], "x", kNotANumber);
  const auto guard = guard_that(SpikeAction::kRollback, 4, factor);
  // Memory has the states after 12 and 20 steps.
  const auto lowers = [&](auto& group, std::int64_t batch_idx) {
    if (batch_idx == 11 || batch_idx == 15) set_lr(group, get_lr(group) * (batch_idx == 11 ? factor * factor : factor));
  };
  GuardedFit guarded({guard});
  GuardedFit by_hand({after_batches(lowers)});
  guarded.module.schedule = by_hand.module.schedule = StepLr::Options{.step_size = 3, .gamma = 0.9};
  check_same(guarded(batches), by_hand(without(without(batches, 20, 21), 12, 15)));
  CHECK(guarded.rates == by_hand.rates);
  CHECK(guard->rollbacks() == 3);
  CHECK(guarded.logger->rows.at(13).values.at("SpikeGuard/rollbacks") == 0);
  CHECK(guarded.logger->rows.at(14).values.at("SpikeGuard/rollbacks") == 1);
  CHECK(guarded.logger->rows.at(21).values.at("SpikeGuard/rollbacks") == 3);
}

TEST_CASE("a rollback to a checkpoint takes the newest of the fit; before the first the step is left out") {
  std::vector<Batch> batches = good_batches(24);
  plant(batches[2], "y", kNotANumber);
  plant(batches[14], "y", 1e4);
  plant(batches[15], "x", kNotANumber);
  const auto guard = guard_with([](SpikeGuardOptions& options) {
    options.action = SpikeAction::kRollback;
    options.rollback_to = RollbackTo::kCheckpoint;
    options.lr_factor = 0.5;
  });
  GuardedFit guarded({guard});
  guarded.run.options.enable_checkpointing = std::nullopt;
  guarded.run.options.callbacks.push_back(std::make_shared<ModelCheckpoint>(
      ModelCheckpointOptions{.dirpath = guarded.run.folder.path(), .save_top_k = -1, .every_n_train_steps = 4}));
  GuardedFit by_hand({after_batches([](auto& group, std::int64_t batch_idx) {
    if (batch_idx == 10) set_lr(group, 0.0025);
  })});
  auto end = guarded(batches);
  auto expected = by_hand(without(without(batches, 12, 15), 2, 2));
  // What the first one did to statistics stays.
  for (auto* tensors : {&end, &expected}) {
    std::erase_if(*tensors, [](const auto& entry) {
      return entry.first.starts_with("state_dict.norm.running") || entry.first.ends_with("tracked");
    });
  }
  check_same(end, expected);
  CHECK(guard->skipped() == 3);
  CHECK(guard->rollbacks() == 2);
  CHECK(guarded.rates == by_hand.rates);
}

TEST_CASE("a run that resumes with another action of its guard has what that one needs, and nothing of the other's") {
  // Inside an epoch of 24 batches.
  const auto fit_until = [](GuardedFit& fit, std::int64_t steps, const std::vector<Batch>& batches,
                            const GuardedFit* from = nullptr) {
    fit.run.options.max_steps = steps;
    return fit(batches, from);
  };
  std::vector<Batch> batches = good_batches(24);
  SECTION("skip, then rollback: to where it resumed") {
    GuardedFit first({guard_that(SpikeAction::kSkip)});
    const auto then = fit_until(first, 10, batches);
    plant(batches[20], "y", 1e4);
    const auto guard = guard_that(SpikeAction::kRollback);
    GuardedFit second({guard});
    check_same(fit_until(second, 21, batches, &first), then);
    CHECK(guard->rollbacks() == 1);
  }
  SECTION("rollback, then skip: the step alone, and not those since the last state in memory") {
    GuardedFit first({guard_that(SpikeAction::kRollback, 4)});
    const auto then = fit_until(first, 10, batches);
    plant(batches[10], "y", 1e4);
    const auto guard = guard_that(SpikeAction::kSkip);
    GuardedFit second({guard});
    check_same(fit_until(second, 11, batches, &first), then);
    CHECK(guard->skipped() == 1);
  }
  SECTION("rollback, then warn: nothing") {
    GuardedFit first({guard_that(SpikeAction::kRollback, 4)});
    fit_until(first, 10, batches);
    plant(batches[10], "y", 1e4);
    const auto guard = guard_that(SpikeAction::kWarn);
    GuardedFit second({guard});
    GuardedFit plain;
    check_same(fit_until(second, 14, batches, &first), fit_until(plain, 14, batches, &first));
    CHECK(guard->spikes() == std::vector<std::int64_t>{10});
    for (const auto& [name, tensor] : Checkpoint::load(second.run.folder / "end.ckpt").tensors) {
      INFO(name);
      CHECK_FALSE(name.starts_with("SpikeGuard."));
    }
  }
}

TEST_CASE("a rollback to before StochasticWeightAveraging took over leaves its schedule and its rates alone") {
  const bool schedules = GENERATE(false, true);
  // Six batches an epoch; the state in memory is that of the beginning.
  const auto rates_with = [&](std::int64_t spike_at) {
    const auto guard = guard_that(SpikeAction::kRollback, 1000);
    std::vector<double> rates;
    const auto note = [&](Trainer& trainer, Module&, torch::optim::Optimizer& optimizer) {
      if (trainer.global_step() == spike_at) return;
      rates.push_back(get_lrs(optimizer).front());
    };
    const auto averaging = std::make_shared<StochasticWeightAveraging>(StochasticWeightAveragingOptions{
        .swa_lrs = 0.002, .swa_epoch_start = 3, .annealing_epochs = 2, .annealing_strategy = "linear"});
    GuardedFit fit(
        {guard, averaging, std::make_shared<LambdaCallback>(LambdaCallbackOptions{.on_before_optimizer_step = note})});
    fit.run.options.max_epochs = 6;
    fit.module.spikes_at = spike_at;
    if (schedules) fit.module.schedule = StepLr::Options{.step_size = 6, .gamma = 0.5};
    fit(good_batches(6));
    CHECK(guard->rollbacks() == (spike_at < 0 ? 0 : 1));
    return rates;
  };
  std::vector<double> expected;
  for (const double rate : schedules ? std::vector{0.01, 0.005, 0.0025, 0.00225, 0.002, 0.002}
                                     : std::vector{0.01, 0.01, 0.01, 0.006, 0.002, 0.002}) {
    expected.insert(expected.end(), 6, rate);
  }
  for (const std::int64_t spike_at : {-1, 14, 20, 35}) {  // none, as it begins, while it anneals, the last one
    INFO("spike at " << spike_at);
    std::vector<double> wanted = expected;
    if (spike_at >= 0) wanted.erase(wanted.begin() + spike_at);
    CHECK_THAT(rates_with(spike_at), Catch::Approx(wanted).epsilon(1e-9));
  }
}

TEST_CASE("after so many rollbacks a spike ends the run") {
  std::vector<Batch> batches = good_batches(12);
  for (std::size_t index = 6; index < 12; ++index) plant(batches[index], "x", kNotANumber);
  const auto guard = guard_with([](SpikeGuardOptions& options) {
    options.action = SpikeAction::kRollback;
    options.max_rollbacks = 2;
  });
  GuardedFit guarded({guard});
  CHECK_THROWS_AS(guarded(batches), TrainingSpikeError);
  CHECK_THROWS_WITH(guarded(batches), Catch::Contains("the loss is NaN or infinite") && Catch::Contains("in step 8") &&
                                          Catch::Contains("after 2 rollbacks (max_rollbacks)") && Catch::Contains("6, 7, 8"));
}

TEST_CASE("rates are lowered for good, whatever the schedule") {
  const std::vector<SchedulerMaker> schedules = {
      CosineAnnealingLr::Options{.T_max = 30, .eta_min = 1e-3},
      OneCycleLr::Options{.max_lr = 0.1, .total_steps = 30, .cycle_momentum = false},
      CyclicLr::Options{.base_lr = 0.001, .max_lr = 0.1, .step_size_up = 4, .cycle_momentum = false},
      [](torch::optim::Optimizer& optimizer) {
        const std::vector<std::shared_ptr<LrScheduler>> both = {
            std::make_shared<LambdaLr>(optimizer, [](std::int64_t step) { return 1.0 / (step + 1.0); }),
            std::make_shared<StepLr>(optimizer, StepLrOptions{.step_size = 3, .gamma = 0.9})};
        return SequentialLr(optimizer, both, std::vector<std::int64_t>{9});
      }};
  for (std::size_t index = 0; index < schedules.size(); ++index) {
    INFO(index);
    const auto rates_with = [&](double factor) {
      std::vector<Batch> batches = good_batches(14);
      plant(batches[5], "x", kNotANumber);
      std::vector<double> rates;
      const auto note = [&](Trainer&, Module&, torch::optim::Optimizer& optimizer) {
        rates.push_back(get_lrs(optimizer).front());
      };
      GuardedFit run({guard_that(SpikeAction::kRollback, 1, factor),
                      std::make_shared<LambdaCallback>(LambdaCallbackOptions{.on_before_optimizer_step = note})});
      run.module.schedule = schedules[index];
      run(batches);
      return rates;
    };
    std::vector<double> expected = rates_with(1);
    REQUIRE(expected.size() == 14);
    for (std::size_t step = 6; step < expected.size(); ++step) expected[step] *= 0.5;
    CHECK_THAT(rates_with(0.5), Catch::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("a level that stays high is a spike for a while only") {
  std::vector<Batch> batches = good_batches(120);
  for (std::size_t index = 40; index < batches.size(); ++index) plant(batches[index], "y", 60);
  const auto guard = guard_with([](SpikeGuardOptions& options) { options.threshold_gradient_norm.reset(); });
  GuardedFit guarded({guard});
  guarded(batches);
  REQUIRE(!guard->spikes().empty());
  CHECK(guard->spikes().front() == 40);
  CHECK(guard->spikes().back() < 60);
}

TEST_CASE("an optimizer that cannot leave out a step is refused, unless the guard only warns") {
  struct WithLbfgs final : ScriptedModule {
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::LBFGS>(parameters(), 0.01); }
  } module;
  CHECK_THROWS_WITH(ScriptedRun(1, {std::make_shared<SpikeGuard>()}).fit(module), Catch::Contains("SpikeGuard: LBFGS cannot"));
  CHECK_NOTHROW(ScriptedRun(1, {guard_with([](auto& options) { options.action = SpikeAction::kWarn; })}).fit(module));
  CHECK_THROWS_WITH(guard_with([](auto& options) { options.warmup = 9; }), Catch::Contains("warmup is longer than window"));
}
