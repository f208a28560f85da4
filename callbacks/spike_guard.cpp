#include "levin/callbacks/spike_guard.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/options/registry.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/step_measures.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

constexpr const char* kInCheckpoint = "SpikeGuard.";
constexpr std::array kNames = {"the loss", "the norm of the gradients"};
/// A deviation is at least this part of the mean: where values hardly differ, each would be a spike.
constexpr double kLeastDeviation = 0.01;

using Number = OptionType<std::optional<double>>;
using Numbers = OptionType<std::vector<double>>;
using Integers = OptionType<std::vector<std::int64_t>>;

std::string count_of(std::int64_t number, const char* noun) { return counted(static_cast<std::size_t>(number), noun); }

/// "steps 17, 203"; the last ones where they are many.
std::string listed(std::span<const std::int64_t> steps) {
  constexpr std::size_t kMost = 20;
  const auto text_of = [](std::int64_t step) { return std::to_string(step); };
  return (steps.size() > kMost ? "steps …, " : "steps ") + join(steps.last(std::min(steps.size(), kMost)), ", ", text_of);
}

/// Learning rates in the state of levin's schedulers, and of those that they are made of.
void scale_rates(Value& state, double factor) {
  static constexpr std::array kRates = {"base_lr", "base_lrs", "_last_lr", "max_lr", "max_lrs", "min_lr", "eta_min", "swa_lr"};
  for (auto& [name, value] : state.as_map()) {
    const bool is_rate = std::find(kRates.begin(), kRates.end(), name) != kRates.end();
    if (is_rate && value.is_number()) value = value.as_double() * factor;
    if (!value.is_list()) continue;
    for (Value& element : value.as_list()) {
      if (element.is_map()) scale_rates(element, factor);
      if (is_rate && element.is_number()) element = element.as_double() * factor;
    }
  }
}

void scale_rates(const Trainer& trainer, double factor) {
  for (const auto& optimizer : trainer.optimizers()) {
    for (auto& group : optimizer->param_groups()) set_lr(group, get_lr(group) * factor);
  }
  for (const SchedulerConfig& config : trainer.scheduler_configs()) {
    Value state = config.scheduler->state_dict();
    scale_rates(state, factor);
    config.scheduler->load_state_dict(state);
  }
}

}  // namespace

LEVIN_REGISTER_CALLBACK(SpikeGuard, "Skip steps whose loss or gradients leap away, or go back to before");

void SpikeGuardOptions::declare(OptionList<SpikeGuardOptions>& options) {
  using O = SpikeGuardOptions;
  options.add(&O::action, "What follows a spike: a warning, the step left out, or going back");
  options.add(&O::window, "Steps whose mean and deviation a step is compared with").min(2);
  options.add(&O::warmup, "Steps before the first that is compared").min(2);
  options.add(&O::threshold_loss, "Deviations above the mean at which a loss is a spike; null: any finite one is good")
      .above(0);
  options.add(&O::threshold_gradient_norm, "The same of the gradients' norm").above(0);
  options.add(&O::rollback_to, "Where the state is that a rollback goes back to");
  options.add(&O::every_n_steps, "Steps from one state that memory keeps to the next").min(1);
  options.add(&O::lr_factor, "Factor of the learning rates with each rollback").above(0).max(1);
  options.add(&O::max_rollbacks, "Rollbacks of a run; one more is an error").min(1);
  options.rule({"window", "warmup"}, [](const O& guard) {
    return guard.warmup <= guard.window ? "" : "warmup is longer than window, which never has so many steps";
  });
}

Value SpikeGuard::state_dict() const {
  Value::List earlier;
  for (const auto& both : earlier_) {
    for (const std::deque<double>& values : both) earlier.push_back(Numbers::write({values.begin(), values.end()}));
  }
  Value::List steps;
  for (const Step& step : steps_of_batch_) {
    steps.push_back(Value::List{step.number, static_cast<std::int64_t>(step.optimizer), Number::write(step.values[0]),
                                Number::write(step.values[1])});
  }
  return Value::Map{{"earlier", std::move(earlier)},
                    {"steps_of_batch", std::move(steps)},
                    {"steps", steps_},
                    {"spikes", Integers::write(spikes_)},
                    {"skipped", skipped_},
                    {"rollbacks", rollbacks_}};
}

void SpikeGuard::load_state_dict(const Value& state) {
  const Value::List& earlier = state.at("earlier").as_list();
  earlier_.assign(earlier.size() / 2, {});
  for (std::size_t index = 0; index < 2 * earlier_.size(); ++index) {
    const std::vector<double> values = Numbers::read(earlier[index]);
    earlier_[index / 2][index % 2].assign(values.begin(), values.end());
  }
  steps_of_batch_.clear();
  for (const Value& step : state.at("steps_of_batch").as_list()) {
    const Value::List& parts = step.as_list();
    steps_of_batch_.push_back({parts.at(0).as_int(),
                               static_cast<std::size_t>(parts.at(1).as_int()),
                               {Number::read(parts.at(2)), Number::read(parts.at(3))}});
  }
  spikes_ = Integers::read(state.at("spikes"));
  steps_ = state.at("steps").as_int();
  skipped_ = state.at("skipped").as_int();
  rollbacks_ = state.at("rollbacks").as_int();
}

void SpikeGuard::setup(Trainer& trainer, Module&, Stage) {
  if (trainer.fitting()) *this = SpikeGuard(options_);
}

void SpikeGuard::on_train_start(Trainer& trainer, Module&) {
  earlier_.resize(std::max(earlier_.size(), trainer.optimizers().size()));
  if (options_.action == SpikeAction::kWarn) return;
  for (const auto& optimizer : trainer.optimizers()) {
    if (steps_parameters_alone(*optimizer)) continue;
    throw MisuseError(
        format("SpikeGuard: {} cannot leave out a step, since it may change parameters that have no gradient. "
               "Use an optimizer of levin's or LibTorch's but LBFGS, or action: warn.",
               optimizer_class_name(*optimizer)));
  }
  if (!good_.empty()) return;
  if (options_.action == SpikeAction::kSkip) {
    good_.take(trainer, TrainingSnapshot::Parts::kBuffers);
  } else if (options_.rollback_to == RollbackTo::kMemory) {
    good_.take(trainer);
  }
}

SpikeGuard::Step SpikeGuard::observe(Trainer& trainer, const torch::optim::Optimizer& optimizer) const {
  struct Share {
    StepLoss loss;
    double norm = -1;  ///< below 0: there are no gradients
  };
  Share mine{.loss = loss_of_step(trainer)};
  if (options_.threshold_gradient_norm) mine.norm = total_norm(gradient_norms(trainer, optimizer)).value_or(-1);
  Share all;
  const Meeting meeting("SpikeGuard", "all ranks have this callback, and step the same optimizers");
  for (const Share& share : RankExchange(trainer.strategy().control_group()).gather_values(mine, meeting)) {
    all.loss.sum += share.loss.sum;
    all.loss.weight += share.loss.weight;
    // The same on all ranks; should one have computed another, all decide by the largest.
    if (std::isnan(share.norm) || share.norm > all.norm) all.norm = share.norm;
  }
  Step step{.number = trainer.global_step()};
  while (trainer.optimizers().at(step.optimizer).get() != &optimizer) ++step.optimizer;
  if (all.loss.weight > 0) step.values[0] = all.loss.sum / all.loss.weight;
  if (!(all.norm < 0)) step.values[1] = all.norm;
  return step;
}

double SpikeGuard::limit(std::size_t which, const std::deque<double>& earlier) const {
  const std::optional<double> threshold = which == 0 ? options_.threshold_loss : options_.threshold_gradient_norm;
  if (!threshold || static_cast<std::int64_t>(earlier.size()) < options_.warmup) return std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(earlier.size());
  const double mean = std::accumulate(earlier.begin(), earlier.end(), 0.0) / count;
  double squares = 0;
  for (const double value : earlier) squares += (value - mean) * (value - mean);
  return mean + *threshold * std::max(std::sqrt(squares / count), kLeastDeviation * std::abs(mean));
}

std::string SpikeGuard::spike_in(const Step& step) const {
  std::vector<std::string> found;
  for (std::size_t which = 0; which < kNames.size(); ++which) {
    const double value = step.values[which].value_or(0);
    const double most = limit(which, earlier_.at(step.optimizer)[which]);
    if (!std::isfinite(value)) {
      found.push_back(format("{} is NaN or infinite", kNames[which]));
    } else if (value > most) {
      found.push_back(format("{} leapt to {}, above {}", kNames[which], float_text(value), float_text(most)));
    }
  }
  return join(found, ", and ");
}

void SpikeGuard::remember(const Step& step) {
  for (std::size_t which = 0; which < kNames.size(); ++which) {
    std::deque<double>& earlier = earlier_.at(step.optimizer)[which];
    if (!step.values[which] || !std::isfinite(*step.values[which])) continue;
    earlier.push_back(std::min(*step.values[which], limit(which, earlier)));
    if (static_cast<std::int64_t>(earlier.size()) > options_.window) earlier.pop_front();
  }
}

void SpikeGuard::on_before_optimizer_step(Trainer& trainer, Module&, torch::optim::Optimizer& optimizer) {
  const Step step = observe(trainer, optimizer);
  // Of a checkpoint that was saved before the step was taken.
  std::erase_if(steps_of_batch_, [&](const Step& earlier) { return earlier.number >= step.number; });
  steps_of_batch_.push_back(step);
  if (options_.action != SpikeAction::kWarn && !spike_in(step).empty()) zero_grad(optimizer);
}

void SpikeGuard::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t batch_idx) {
  std::string spike;
  const bool stepped = !steps_of_batch_.empty();
  for (const Step& step : std::exchange(steps_of_batch_, {})) {
    const std::string found = spike_in(step);
    remember(step);
    ++steps_;
    if (found.empty()) continue;
    spike = found;
    spikes_.push_back(step.number);
    if (options_.action != SpikeAction::kWarn) ++skipped_;
  }
  const bool keeps = options_.action == SpikeAction::kRollback && options_.rollback_to == RollbackTo::kMemory;
  if (options_.action == SpikeAction::kRollback && !spike.empty()) {
    go_back(trainer, spike, batch_idx);
  } else if (!spike.empty()) {
    const bool skips = options_.action == SpikeAction::kSkip;
    if (skips) good_.restore(trainer);
    rank_zero_warn(format("SpikeGuard: {} in step {}{}.", spike, spikes_.back(), skips ? ", which is left out" : ""));
  } else if (options_.action == SpikeAction::kSkip && stepped) {
    good_.take(trainer, TrainingSnapshot::Parts::kBuffers);
  } else if (keeps && stepped && steps_ % options_.every_n_steps == 0) {
    good_.take(trainer);
  }
  const auto log = [&](const char* name, std::int64_t count) {
    module.log(name, static_cast<double>(count), {.on_step = true, .on_epoch = false, .reduce = Reduce::kMax});
  };
  if (options_.action == SpikeAction::kWarn) log("SpikeGuard/spikes", static_cast<std::int64_t>(spikes_.size()));
  if (options_.action != SpikeAction::kWarn) log("SpikeGuard/skipped", skipped_);
  if (options_.action == SpikeAction::kRollback) log("SpikeGuard/rollbacks", rollbacks_);
}

void SpikeGuard::go_back(Trainer& trainer, const std::string& spike, std::int64_t batch_idx) {
  const std::string what = format("SpikeGuard: {} in step {}", spike, spikes_.back());
  if (rollbacks_ == options_.max_rollbacks) {
    throw TrainingSpikeError(
        format("{}, after {} (max_rollbacks). Lower the learning rate, clip gradients, or look at the data of {}.", what,
               count_of(rollbacks_, "rollback"), listed(spikes_)),
        batch_idx);
  }
  std::int64_t lowerings = 1;
  if (options_.rollback_to == RollbackTo::kCheckpoint) {
    if (!good_.take_newest_checkpoint(trainer)) {
      return rank_zero_warn(what + ", which is left out: there is no checkpoint yet to go back to.");
    }
    // Rates are as low as they were when it was written.
    const Value* const callbacks = good_.content()->manifest.find("callbacks");
    const Value* const then = callbacks == nullptr ? nullptr : callbacks->find(state_key());
    lowerings += rollbacks_ - (then == nullptr ? 0 : then->at("rollbacks").as_int());
  }
  try {
    good_.restore(trainer);
  } catch (const ConfigError& error) {
    return rank_zero_warn(format("{}, which is left out: {}", what, error.message()));
  }
  ++rollbacks_;
  if (options_.lr_factor != 1) {
    scale_rates(trainer, std::pow(options_.lr_factor, static_cast<double>(lowerings)));
    if (options_.rollback_to == RollbackTo::kMemory) good_.take(trainer);
  }
  if (options_.rollback_to == RollbackTo::kCheckpoint) good_ = {};
  rank_zero_warn(
      format("{}: back to the last good state, for the {}. of {} times at most.", what, rollbacks_, options_.max_rollbacks));
}

void SpikeGuard::on_fit_end(Trainer&, Module&) {
  std::string text = format("SpikeGuard: {} in {}", counted(spikes_.size(), "spike"), count_of(steps_, "step"));
  if (!spikes_.empty()) text += ": " + listed(spikes_);
  if (options_.action != SpikeAction::kWarn) text += format("; {} left out", count_of(skipped_, "step"));
  if (options_.action == SpikeAction::kRollback) text += ", " + count_of(rollbacks_, "rollback");
  rank_zero_info(text);
}

void SpikeGuard::on_save_checkpoint(Trainer& trainer, Module&, Checkpoint& checkpoint) {
  // One with weights alone has no states of callbacks.
  if (trainer.fitting() && checkpoint.manifest.contains("callbacks")) good_.save(trainer, kInCheckpoint, checkpoint);
}

void SpikeGuard::on_load_checkpoint(Trainer& trainer, Module&, const Checkpoint& checkpoint) {
  if (trainer.fitting()) good_.load(kInCheckpoint, checkpoint);
}

}  // namespace levin
