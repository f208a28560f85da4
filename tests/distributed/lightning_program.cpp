// A user's program that does on several ranks what Lightning's own tests look at. Run by lightning_ranks_test.
// Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <torch/torch.h>

#include <random>

#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/optim/lr_schedulers.h"
#include "support/scripted_line.h"

namespace levin::test::lightning_program {

namespace {

TrainerOptions options_of(const Settings& settings, std::int64_t epochs) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = epochs;
  return options;
}

/// seed: turns of two optimizers over three weights, of which they share one: how many passes make a step and which of them are
/// reduced, whether a turn is toggled, clipped and zeroed, and which schedule steps, are drawn.
class Turns final : public ScriptedLine {
 public:
  explicit Turns(unsigned seed) : random_(seed) {
    set_automatic_optimization(false);
    const at::NoGradGuard no_grad;
    for (const at::Tensor& each : parameters()) each.fill_(0.5);
    optimizers = [this](auto&) -> OptimizerSetups {
      const auto sgd = [](std::vector<at::Tensor> of) { return std::make_shared<torch::optim::SGD>(std::move(of), 0.1); };
      const StepLr::Options slower{.step_size = 2, .gamma = 0.7};
      return {{sgd({weight, shared}), slower}, {sgd({other, shared}), slower}};
    };
    step = [this](auto&, const Batch& batch, auto) {
      turn(batch[0]);
      return StepOutput();
    };
  }
  std::string weights() const { return numbers_text({weight, other, shared}); }

 private:
  bool chance() { return random_() % 2 == 0; }
  void turn(const at::Tensor& x) {
    const std::size_t index = random_() % 2;
    const bool toggles = chance();
    if (toggles) toggle_optimizer(index);
    for (std::int64_t left = static_cast<std::int64_t>(random_() % 3); left >= 0; --left) {
      const double factor = chance() ? 1 : -0.5;
      manual_backward((weight * other * shared * x * factor + weight * x - other * x / 2 + shared * x / 4).mean(),
                      /*synchronize=*/left == 0 || chance());
    }
    if (chance())
      clip_gradients(optimizer(index), 0.7, chance() ? GradientClipAlgorithm::kNorm : GradientClipAlgorithm::kValue);
    step_optimizer(index);
    if (chance()) optimizer(index).zero_grad();
    if (chance()) lr_scheduler(index).step();
    if (toggles) untoggle_optimizer(index);
  }
  at::Tensor other = register_parameter("other", torch::zeros({1}, torch::kDouble));
  at::Tensor shared = register_parameter("shared", torch::zeros({1}, torch::kDouble));
  std::mt19937 random_;
};

void turns(const Settings& settings) {
  std::string all;
  const int first = settings.number("seed");
  int rank = 0;
  for (int seed = first; seed < first + settings.number("seeds"); ++seed) {
    Trainer trainer(options_of(settings, 2));
    Turns module(static_cast<unsigned>(seed));
    const double offset = trainer.world_size() == 1 ? 0 : trainer.rank() == 0 ? -0.5 : 0.5;
    trainer.fit(module, counted(7, 1 + offset), {counted(1)});
    all += (all.empty() ? "" : ",") + module.weights();
    rank = trainer.rank();
  }
  Report(settings.text("folder"), rank).add("weights", all);
}

/// Validates every three batches of streams, across epochs; ranks have four and five batches.
void interval(const Settings& settings) {
  TrainerOptions options = options_of(settings, -1);
  options.max_steps = 12;
  options.val_check_interval = 3;
  options.check_val_every_n_epoch = std::nullopt;
  Trainer trainer(options);
  ScriptedLine module;
  std::string after;
  module.on["on_validation_start"] = [&](auto& self, auto) { after += std::to_string(self.global_step()) + ","; };
  trainer.fit(module, counted(4 + trainer.rank(), 1, /*knows_size=*/false), {counted(1)});
  Report(settings.text("folder"), trainer.rank()).add("validated", after);
}

const RankProgram program("lightning", {{"turns", turns}, {"interval", interval}});

}  // namespace

}  // namespace levin::test::lightning_program
