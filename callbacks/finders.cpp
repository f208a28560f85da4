#include "levin/callbacks/finders.h"

#include <ATen/ops/gradient.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/amounts.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/machine_memory.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
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

/// Sets each step's rate, and records rates and losses.
class RateSweep final : public Callback {
 public:
  RateSweep(const LearningRateFinderOptions& options, std::vector<double>& rates, std::vector<double>& losses)
      : options_(options), rates_(rates), losses_(losses) {}

  /// So that a rank without a batch takes part.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  void on_train_start(Trainer& trainer, Module&) override {
    keep_step_losses(trainer);
    if (trainer.optimizers().size() == 1) return;
    throw MisuseError(
        format("LearningRateFinder is for one optimizer, and this module has {}: leave it out.", trainer.optimizers().size()));
  }

  void on_before_optimizer_step(Trainer& trainer, Module&, torch::optim::Optimizer& optimizer) override {
    StepLoss all;
    RankExchange ranks(trainer.strategy().control_group());
    for (const StepLoss& rank : ranks.gather_values(loss_of_step(trainer), {"LearningRateFinder", "all take the same steps"})) {
      all.sum += rank.sum;
      all.weight += rank.weight;
    }
    loss_ = all.weight > 0 ? std::optional(all.sum / all.weight) : std::nullopt;
    for (auto& group : optimizer.param_groups()) set_lr(group, rate_of_step(options_, losses_.size()));
  }

  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) override {
    // On several ranks a wish to stop comes true a step later.
    if (std::exchange(steps_, trainer.global_step()) != trainer.global_step() && !trainer.should_stop()) add(trainer, loss_);
  }

 private:
  void add(Trainer& trainer, const std::optional<double>& loss) {
    constexpr double kBeta = 0.98;
    rates_.push_back(rate_of_step(options_, losses_.size()));
    if (!loss) return losses_.push_back(std::numeric_limits<double>::quiet_NaN());
    mean_ = kBeta * mean_ + (1 - kBeta) * *loss;
    // The average begins with 0. Lightning makes up for one step more than there were, and halves the first loss.
    const double smoothed = mean_ / (1 - std::pow(kBeta, static_cast<double>(losses_.size() + 1)));
    const bool is_first = !best_;
    losses_.push_back(smoothed);
    const bool diverges = options_.early_stop_threshold && !is_first && smoothed > limit(*options_.early_stop_threshold);
    if (diverges || !std::isfinite(smoothed)) trainer.stop("the loss diverges");
    if (is_first || smoothed < *best_) best_ = smoothed;
    largest_ = std::max(largest_, std::abs(smoothed));
  }

  /// `threshold` times the best loss. Below 0, where a product would be better still, it is as far above the best one as that
  /// is for losses of the size that there were.
  double limit(double threshold) const { return *best_ > 0 ? threshold * *best_ : *best_ + (threshold - 1) * largest_; }

  const LearningRateFinderOptions& options_;
  std::vector<double>& rates_;
  std::vector<double>& losses_;
  std::int64_t steps_ = 0;
  std::optional<double> loss_;  ///< of the step that is taken; unset: training_step gave none
  double mean_ = 0;
  std::optional<double> best_;
  double largest_ = 0;  ///< of all, without their signs
};

}  // namespace

LEVIN_REGISTER_CALLBACK(LearningRateFinder, "Begin the fit with the learning rate at which the loss falls most steeply");

void LearningRateFinderOptions::declare(OptionList<LearningRateFinderOptions>& options) {
  using O = LearningRateFinderOptions;
  options.add(&O::min_lr, "The rate of the first step").min(0);
  options.add(&O::max_lr, "The rate of the last step").min(0);
  options.add(&O::num_training_steps, "Steps of the optimizer, each with its own rate").min(1);
  options.add(&O::mode, "How rates follow one another");
  options.add(&O::early_stop_threshold, "End when the loss is so many times the best one; null: never")
      .min(1)
      .instead("null never ends early");
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

void LearningRateFinder::tune(Trainer&, TrialRunner& trials) {
  rates_.clear();
  losses_.clear();
  trials.run({.steps = options_.num_training_steps, .observer = std::make_shared<RateSweep>(options_, rates_, losses_)});
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
  if (options_.update) trials.set_learning_rate(*found);
}

namespace {

/// LibTorch's allocator for the CPU has no error type for it.
bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  if (of_torch != nullptr && of_torch->msg().find("DefaultCPUAllocator: can't allocate memory") != std::string::npos)
    return true;
  try {
    std::rethrow_if_nested(error);  // a loader's error has that of its dataset in it
  } catch (const std::exception& inner) {
    return is_out_of_memory(inner);
  }
  return false;
}

/// From here on process_memory().peak is that of what comes.
void forget_peak() {
  clear_memory();
  std::ofstream("/proc/self/clear_refs") << 5;
}

/// Measures how fast steps are.
class StepClock final : public Callback {
 public:
  void on_train_start(Trainer&, Module&) override { started_ = steady_seconds(); }
  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch& batch, std::int64_t) override {
    trainer.strategy().accelerator().synchronize(trainer.device());
    const double now = steady_seconds();
    const auto samples = static_cast<double>(batch.batch_size());
    if (batches_++ == 0) {
      first_ = samples / (now - started_);
      started_ = now;
      return;
    }
    samples_ += samples;
    later_ = samples_ / (now - started_);
  }
  double samples_per_second() const { return later_ > 0 ? later_ : first_; }

 private:
  double started_ = 0;
  std::int64_t batches_ = 0;
  double samples_ = 0;
  double first_ = 0;
  double later_ = 0;
};

}  // namespace

LEVIN_REGISTER_CALLBACK(BatchSizeFinder, "Begin the fit with the largest batch size for which memory suffices");

void BatchSizeFinderOptions::declare(OptionList<BatchSizeFinderOptions>& options) {
  using O = BatchSizeFinderOptions;
  options.add(&O::mode, "power: twice as large each time; binsearch: then sizes between the last two, too");
  options.add(&O::steps_per_trial, "Steps of the optimizer with each size").min(1);
  options.add(&O::init_val, "The first size").min(1);
  options.add(&O::max_trials, "The most sizes that are tried").min(1);
  options.add(&O::margin, "Share by which binsearch lowers what it finds, where memory was the limit").min(0).below(1);
  options.add(&O::max_val, "The largest size that is tried").min(1);
  options
      .add(&O::memory_limit, "Memory that the process may take: up to 1 a share of the machine's, above that bytes; null: any")
      .above(0)
      .instead("null continues until an allocation fails");
  options.add(&O::update, "Begin the fit with the size that was found");
}

bool BatchSizeFinder::try_size(TrialRunner& trials, std::int64_t batch_size) {
  const auto clock = std::make_shared<StepClock>();
  bool fits = true;
  forget_peak();
  try {
    trials.run({.steps = options_.steps_per_trial, .batch_size = batch_size, .observer = clock});
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    fits = false;
  }
  const std::int64_t peak = process_memory().peak;
  const double given = options_.memory_limit.value_or(0);
  std::ifstream meminfo("/proc/meminfo");
  const double limit = given <= 1 ? given * machine_memory(meminfo)["MemTotal"] : given;
  if (options_.memory_limit && static_cast<double>(peak) > limit) fits = false;
  const double speed = fits ? clock->samples_per_second() : 0;
  found_["trials"].push_back(
      Value::Map{{"batch_size", batch_size}, {"fits", fits}, {"samples_per_second", speed}, {"peak_bytes", peak}});
  rank_zero_info(format("BatchSizeFinder: {} {}, at most {}", batch_size,
                        fits ? format("fits: {:.0f} samples/s", speed) : "is too large",
                        bytes_text(static_cast<double>(peak))));
  return fits;
}

std::int64_t BatchSizeFinder::search(std::int64_t most, const std::function<bool(std::int64_t)>& fits) const {
  std::int64_t fitting = 0;
  std::int64_t too_large = 0;  // 0: none yet
  std::int64_t size = std::min(options_.init_val, most);
  for (std::int64_t trial = 0; trial < options_.max_trials; ++trial) {
    (fits(size) ? fitting : too_large) = size;
    if (too_large == 1) throw Error("BatchSizeFinder: memory does not suffice for a batch of one sample.");
    const bool is_done = too_large == 0 ? fitting == most : options_.mode == SizeMode::kPower ? fitting > 0 : false;
    if (is_done || too_large - fitting == 1) break;
    size = too_large == 0 ? std::min(2 * fitting, most) : (fitting + too_large) / 2;
  }
  if (fitting == 0)
    throw Error(format("BatchSizeFinder: memory does not suffice for batches of {}: lower init_val.", too_large));
  if (options_.mode == SizeMode::kPower || too_large == 0) return fitting;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(fitting) * (1 - options_.margin)));
}

void BatchSizeFinder::tune(Trainer& trainer, TrialRunner& trials) {
  if (trainer.world_size() > 1) {
    throw ConfigError(
        "BatchSizeFinder runs out of memory on purpose, which ends a run of several ranks: find the size with devices: 1, such "
        "as by levin tune --batch_size, and set it.");
  }
  found_ = Value();
  const auto share = trials.loader().sample_share();
  const auto own = trials.loader().batch_size();
  const std::int64_t most = share ? std::min(options_.max_val, std::max<std::int64_t>(1, share->mine)) : options_.max_val;
  const std::int64_t batch_size = search(most, [&](std::int64_t size) { return try_size(trials, size); });
  found_["batch_size"] = batch_size;
  rank_zero_info("BatchSizeFinder: ", batch_size, options_.update ? "; the fit begins with it" : "");
  trials.set_batch_size(options_.update ? batch_size : own.value_or(batch_size));
}

}  // namespace levin
