// A user's program whose run is watched, with one behaviour for each scenario: by callbacks that look at losses and gradients,
// and for ranks that are slow. Run by watch_ranks_test. Arguments: scenario=… ranks=… folder=… and what the scenario takes, as
// name=value.
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "distributed/dataset_loader.h"
#include "distributed/one_weight_run.h"
#include "distributed/tensor_text.h"
#include "levin/callbacks/finders.h"
#include "levin/callbacks/spike_detection.h"
#include "levin/callbacks/spike_guard.h"

namespace levin::test::watch_program {

namespace {

/// losses_R=, of rank R's batches; window=, warmup=, atol=, rtol=, mode=, finite_only=, of SpikeDetection
void spikes(const Settings& settings) {
  SpikeDetectionOptions detection{.exclude_batches_path = settings.text("folder")};
  detection.window = settings.number("window", 10);
  detection.warmup = settings.number("warmup", 1);
  if (settings.has("atol")) detection.atol = std::stod(settings.text("atol"));
  if (settings.has("rtol")) detection.rtol.reset();
  if (settings.has("rtol") && settings.text("rtol") != "null") detection.rtol = std::stod(settings.text("rtol"));
  if (settings.text("mode") == "\"max\"") detection.mode = MonitorMode::kMax;
  detection.finite_only = settings.text("finite_only", "true") == "true";
  TrainerOptions options = options_for(settings);
  options.callbacks = {std::make_shared<SpikeDetection>(detection)};
  Trainer trainer(options);
  std::istringstream texts(settings.text("losses_" + std::to_string(trainer.rank())));
  std::vector<Batch> batches;
  for (std::string loss; texts >> loss;) batches.push_back(Batch{{"loss", torch::full({1}, std::stod(loss), torch::kDouble)}});
  struct GivenLoss final : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t) override { return (batch[0] + 0 * parameters()[0]).sum(); }
  } module;
  try {
    trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)));
  } catch (const TrainingSpikeError& error) {
    std::ofstream(settings.text("folder") + "/caught_" + std::to_string(trainer.rank())) << error.batch_idx() << error.what();
    throw;
  }
}

/// slow_in=, loader, training_step, backward, hooks or nothing: where the last rank takes 25 ms more in each step
void straggler(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  options.log_every_n_steps = 10;
  options.max_epochs = 10;
  Trainer trainer(options);
  const std::string slow_in = trainer.rank() == trainer.world_size() - 1 ? settings.text("slow_in") : "nothing";
  const auto be_slow = [slow_in](const std::string& place) {
    if (place == slow_in) usleep(25'000);
  };
  struct Slow final : OneWeight {
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override { work("hooks"); }
    void backward(const at::Tensor& loss) override {
      work("backward");
      OneWeight::backward(loss);
    }
    std::function<void(const std::string&)> work;
  } module;
  module.work = be_slow;
  module.on_step = [&](OneWeight&, std::int64_t) { be_slow("training_step"); };
  struct SlowLoader final : FixedLoader {
    using FixedLoader::FixedLoader;
    std::optional<Batch> next() override {
      work("loader");
      return FixedLoader::next();
    }
    std::function<void(const std::string&)> work;
  };
  const auto loader = std::make_shared<SlowLoader>(std::vector<Batch>(15, Batch{{"x", torch::ones({1})}}));
  loader->work = be_slow;
  trainer.fit(module, loader);
  report_run(settings, trainer, module);
}

/// action=, of SpikeGuard; spike=: the batch that leaps on rank on=; out=FIRST-LAST: batches that no rank sees;
/// uneven=1: the last rank has fewer batches
void guarded(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  const bool rolls_back = settings.text("action", "") == "rollback";
  SpikeGuardOptions guarding{.window = 8, .warmup = 4, .threshold_loss = 12, .threshold_gradient_norm = 12, .every_n_steps = 4};
  if (rolls_back) guarding.action = SpikeAction::kRollback;
  if (rolls_back) guarding.threshold_gradient_norm.reset();
  const auto guard = std::make_shared<SpikeGuard>(guarding);
  if (settings.has("action")) options.callbacks = {guard};
  options.max_epochs = 1;
  Trainer trainer(options);
  const bool is_last = trainer.rank() == trainer.world_size() - 1;
  struct Regression final : Module {
    Regression() {
      torch::manual_seed(1);
      first = register_module("first", torch::nn::Linear(3, 4));
      second = register_module("second", torch::nn::Linear(4, 1));
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return torch::mse_loss(second->forward(torch::tanh(first->forward(batch["x"]))), batch["y"]);
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::Adam>(parameters(), 0.01); }
    torch::nn::Linear first{nullptr}, second{nullptr};
  } module;
  std::vector<Batch> batches;
  std::int64_t first = 99;
  std::int64_t last = 99;
  if (settings.has("out")) (std::istringstream(settings.text("out")) >> first).ignore() >> last;
  for (std::int64_t index = 0; index < (is_last && settings.has("uneven") ? 14 : 18); ++index) {
    if (index >= first && index <= last) continue;
    const at::Tensor x = torch::arange(12, torch::kFloat).add(12 * index + 5 * trainer.rank()).sin().reshape({4, 3});
    const bool leaps = trainer.rank() == settings.number("on", -1) && index == settings.number("spike");
    batches.push_back(Batch{{"x", x}, {"y", torch::full({4, 1}, leaps ? 300.0 : 3.0)}});
  }
  trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)));
  Report report(settings.text("folder"), trainer.rank());
  report.add("weights", numbers_text(module.parameters()));
  report.add("skipped", guard->skipped());
  report.add("rollbacks", guard->rollbacks());
}

/// strategy=; losses of a rate finder's steps over 7 samples, which do not divide over two ranks
void finds_rate(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  options.use_distributed_sampler = true;
  options.uneven = levin::Uneven::kKeep;
  const LearningRateFinderOptions rates{.min_lr = 1e-3, .max_lr = 5, .num_training_steps = 40};
  const auto finder = std::make_shared<LearningRateFinder>(rates);
  options.callbacks = {finder};
  Trainer trainer(options);
  struct Quadratic final : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t) override { return (parameters()[0] - batch[0]).pow(2).mean(); }
  } module;
  const at::Tensor values = 1 + torch::arange(7, torch::kFloat).reshape({-1, 1}) / 10;
  trainer.fit(module, dataset_loader(values, {.batch_size = 2 / settings.number("ranks")}));
  Report report = report_run(settings, trainer, module);
  report.add("suggestion", finder->suggestion().value_or(0));
  const std::vector<double>& losses = finder->losses();
  report.add("losses", numbers_text({torch::tensor(losses, torch::kDouble)}));
}

const RankProgram program("watch",
                          {{"spikes", spikes}, {"straggler", straggler}, {"guarded", guarded}, {"finds_rate", finds_rate}});

}  // namespace

}  // namespace levin::test::watch_program
