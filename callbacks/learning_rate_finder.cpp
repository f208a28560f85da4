#include <ATen/ops/gradient.h>
#include <ATen/ops/tensor.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/callbacks/finders.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/options/registry.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// The rate of a step. The second step leaves out one, so that the last has the highest rate, as in Lightning.
double rate_of_step(const LearningRateFinderOptions& options, std::size_t step) {
  if (step == 0) return options.min_lr;
  const double share = static_cast<double>(step + 1) / static_cast<double>(options.num_training_steps);
  if (options.mode == RateMode::kLinear) return options.min_lr + share * (options.max_lr - options.min_lr);
  return options.min_lr * std::pow(options.max_lr / options.min_lr, share);
}

/// Sets each step's rate, and keeps rates and losses.
class RateSweep final : public Callback {
 public:
  RateSweep(const LearningRateFinderOptions& options, std::vector<double>& rates, std::vector<double>& losses)
      : options_(options), rates_(rates), losses_(losses) {}

  /// So that a rank without a batch takes part.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  void on_train_start(Trainer& trainer, Module&) override {
    if (trainer.optimizers().size() == 1) return;
    throw MisuseError(
        format("LearningRateFinder is for one optimizer, and this module has {}: leave it out.", trainer.optimizers().size()));
  }

  void on_before_optimizer_step(Trainer&, Module&, torch::optim::Optimizer& optimizer) override {
    for (auto& group : optimizer.param_groups()) set_lr(group, rate_of_step(options_, losses_.size()));
  }

  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput& output, const Batch& batch, std::int64_t) override {
    if (output.loss.defined()) {
      const auto samples = static_cast<double>(std::max<std::int64_t>(1, batch.batch_size()));
      window_.loss += output.loss.item<double>() * samples * static_cast<double>(trainer.accumulate_grad_batches());
      window_.samples += samples;
    }
    if (trainer.global_step() == steps_) return;
    steps_ = trainer.global_step();
    Sum all;
    RankExchange ranks(trainer.strategy().control_group());
    for (const Sum& rank : ranks.gather_values(std::exchange(window_, {}), {"LearningRateFinder", "all take the same steps"})) {
      all.loss += rank.loss;
      all.samples += rank.samples;
    }
    // On several ranks a wish to stop comes true a step later.
    if (!trainer.should_stop()) add(trainer, all.loss / all.samples);
  }

 private:
  struct Sum {
    double loss = 0;
    double samples = 0;
  };

  void add(Trainer& trainer, double loss) {
    constexpr double kBeta = 0.98;
    rates_.push_back(rate_of_step(options_, losses_.size()));
    mean_ = kBeta * mean_ + (1 - kBeta) * loss;
    // The average begins with 0. Lightning makes up for one step more than there were, and halves the first loss.
    const double smoothed = mean_ / (1 - std::pow(kBeta, static_cast<double>(losses_.size() + 1)));
    const bool is_first = losses_.empty();
    losses_.push_back(smoothed);
    const bool diverges = options_.early_stop_threshold && !is_first && smoothed > *options_.early_stop_threshold * best_;
    if (diverges || !std::isfinite(smoothed)) trainer.stop("the loss diverges");
    if (is_first || smoothed < best_) best_ = smoothed;
  }

  const LearningRateFinderOptions& options_;
  std::vector<double>& rates_;
  std::vector<double>& losses_;
  std::int64_t steps_ = 0;
  Sum window_;  ///< this rank's, since the optimizer's last step
  double mean_ = 0;
  double best_ = 0;
};

}  // namespace

LEVIN_REGISTER_CALLBACK(LearningRateFinder, "Begin the fit with the learning rate at which the loss falls most steeply");

void LearningRateFinderOptions::declare(OptionList<LearningRateFinderOptions>& options) {
  using O = LearningRateFinderOptions;
  options.add(&O::min_lr, "The rate of the first step").min(0);
  options.add(&O::max_lr, "The rate of the last step").min(0);
  options.add(&O::num_training_steps, "Steps of the optimizer, each with a rate of its own").min(1);
  options.add(&O::mode, "How rates follow one another");
  options.add(&O::early_stop_threshold, "End when the loss is so many times the best one; null: never").min(0);
  options.add(&O::update, "Begin the fit with the rate that was found");
  options.add(&O::slope_over, "Where the loss falls most steeply: over the axis of the plot, or the rate as Lightning does");
  options.rule({"min_lr", "max_lr"}, [](const O& finder) -> std::string {
    return 0 < finder.min_lr && finder.min_lr < finder.max_lr ? "" : "min_lr must be above 0 and below max_lr";
  });
}

LearningRateFinder::LearningRateFinder(Options options) : WithOptions("LearningRateFinder", options) {}

std::optional<double> LearningRateFinder::suggestion(std::size_t skip_begin, std::size_t skip_end) const {
  std::vector<double> places, losses, rates;
  for (std::size_t step = skip_begin; step + skip_end < losses_.size(); ++step) {
    if (!std::isfinite(losses_[step])) continue;
    const bool over_logarithm = options_.slope_over == SlopeOver::kPlot && options_.mode == RateMode::kExponential;
    rates.push_back(rates_[step]);
    places.push_back(over_logarithm ? std::log(rates_[step]) : rates_[step]);
    losses.push_back(losses_[step]);
  }
  if (losses.size() < 2) return std::nullopt;
  const std::vector<at::Tensor> spacing = {at::tensor(places, at::kDouble)};
  const at::Tensor slopes = at::gradient(at::tensor(losses, at::kDouble), spacing)[0];
  return rates[static_cast<std::size_t>(slopes.argmin().item<std::int64_t>())];
}

void LearningRateFinder::rehearse(Trainer&, Rehearsal& rehearsal) {
  rates_.clear();
  losses_.clear();
  rehearsal.run({.steps = options_.num_training_steps, .observer = std::make_shared<RateSweep>(options_, rates_, losses_)});
  const std::optional<double> found = suggestion();
  found_ = Value::Map{{"lr", OptionType<std::vector<double>>::write(rates_)},
                      {"loss", OptionType<std::vector<double>>::write(losses_)},
                      {"suggestion", found ? Value(*found) : Value()}};
  if (!found) {
    rank_zero_warn(
        format("LearningRateFinder: {} with a finite loss do not suffice for a suggestion: raise num_training_steps, or lower "
               "min_lr.",
               counted(losses_.size(), "step")));
    return;
  }
  rank_zero_info(format("LearningRateFinder: the loss falls most steeply at a learning rate of {:.3g} ({}{})", *found,
                        counted(losses_.size(), "step"), options_.update ? "; the fit begins with it" : ""));
  if (options_.update) rehearsal.set_learning_rate(*found);
}

}  // namespace levin
