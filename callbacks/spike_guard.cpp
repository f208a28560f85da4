#include "levin/callbacks/spike_guard.h"

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/spike_detection.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

constexpr const char* kInCheckpoint = "SpikeGuard.";
constexpr std::array kNames = {"the loss", "the norm of the gradients"};
/// A deviation is at least this part of the mean: where values hardly differ, each would be a spike.
constexpr double kLeastDeviation = 0.01;

std::string count_of(std::int64_t number, const char* noun) { return counted(static_cast<std::size_t>(number), noun); }

/// "steps 17, 203"; the last ones where they are many.
std::string listed(std::span<const std::int64_t> steps) {
  constexpr std::size_t kMost = 20;
  const auto text_of = [](std::int64_t step) { return std::to_string(step); };
  return (steps.size() > kMost ? "steps …, " : "steps ") + join(steps.last(std::min(steps.size(), kMost)), ", ", text_of);
}

void scale_rates(const Trainer& trainer, double factor) {
  const auto scaled = [factor](std::string_view, std::size_t, double rate) { return rate * factor; };
  for (const SchedulerConfig& config : trainer.scheduler_configs()) config.scheduler->change_rates(scaled);
  for (const auto& optimizer : trainer.optimizers()) {
    for (auto& group : optimizer->param_groups()) set_lr(group, get_lr(group) * factor);
  }
}

}  // namespace

LEVIN_REGISTER_CALLBACK(SpikeGuard, "Skip steps whose loss or gradients spike, or roll back to an earlier state");

void SpikeGuardOptions::declare(OptionList<SpikeGuardOptions>& options) {
  using O = SpikeGuardOptions;
  options.add(&O::action, "What follows a spike: a warning, the step left out, or going back");
  options.add(&O::window, "Steps whose mean and deviation a step is compared with").min(2);
  options.add(&O::warmup, "Steps before the first that is compared").min(2);
  options.add(&O::threshold_loss, "Deviations above the mean at which a loss is a spike; null: no finite loss is")
      .above(0)
      .instead("null takes any finite loss");
  options.add(&O::threshold_gradient_norm, "The same for the gradients' norm; null: no finite norm is")
      .above(0)
      .instead("null takes any finite norm");
  options.add(&O::rollback_to, "Where the state of a rollback comes from");
  options.add(&O::every_n_steps, "Steps from one state in memory to the next").min(1);
  options.add(&O::lr_factor, "Factor of the learning rates with each rollback").above(0).max(1);
  options.add(&O::max_rollbacks, "Rollbacks of a run; one more is an error").min(1);
  options.rule({"window", "warmup"}, [](const O& guard) {
    return guard.warmup <= guard.window ? "" : "warmup is longer than window, which never has so many steps";
  });
}

Value SpikeGuard::state_dict() const { return write_options(state_); }

void SpikeGuard::load_state_dict(const Value& state) { detail::read_state(state, state_); }

void SpikeGuard::setup(Trainer& trainer, Module&, Stage) {
  if (!trainer.fitting()) return;
  *this = SpikeGuard(options_);
  keep_step_losses(trainer);
}

void SpikeGuard::on_train_start(Trainer& trainer, Module&) {
  state_.earlier.resize(std::max(state_.earlier.size(), kNames.size() * trainer.optimizers().size()));
  if (options_.action == SpikeAction::kWarn) return;
  for (const auto& optimizer : trainer.optimizers()) {
    if (steps_parameters_alone(*optimizer)) continue;
    throw MisuseError(
        format("SpikeGuard: {} cannot leave out a step, since it may change parameters that have no gradient. "
               "Use an optimizer of levin's or LibTorch's but LBFGS, or action: warn.",
               optimizer_class_name(*optimizer)));
  }
}

std::optional<TrainingSnapshot::Parts> SpikeGuard::snapshot_parts() const {
  if (options_.action == SpikeAction::kSkip) return TrainingSnapshot::Parts::kBuffers;
  const bool keeps = options_.action == SpikeAction::kRollback && options_.rollback_to == RollbackTo::kMemory;
  return keeps ? std::optional(TrainingSnapshot::Parts::kAll) : std::nullopt;
}

// By then a run that resumes has the groups of its optimizers back.
void SpikeGuard::on_train_batch_start(Trainer& trainer, Module&, const Batch&, std::int64_t) {
  // A checkpoint may have the snapshot of another action.
  if (const auto parts = snapshot_parts(); !parts) {
    snapshot_ = {};
  } else if (!snapshot_.has(*parts)) {
    snapshot_.take(trainer, *parts);
  }
}

void SpikeGuard::on_before_optimizer_step(Trainer& trainer, Module&, torch::optim::Optimizer& optimizer) {
  const Step step = observe(trainer, optimizer);
  // Of a checkpoint that was saved before the step was taken.
  std::erase_if(state_.steps_of_batch, [&](const Step& earlier) { return std::get<0>(earlier) >= std::get<0>(step); });
  state_.steps_of_batch.push_back(step);
  if (options_.action != SpikeAction::kWarn && !spike_in(step).empty()) zero_grad(optimizer);
}

void SpikeGuard::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t batch_idx) {
  std::string spike;
  const bool stepped = !state_.steps_of_batch.empty();
  for (const Step& step : std::exchange(state_.steps_of_batch, {})) {
    const std::string found = spike_in(step);
    add_to_history(step);
    ++state_.steps;
    if (found.empty()) continue;
    spike = found;
    state_.spikes.push_back(std::get<0>(step));
    if (options_.action != SpikeAction::kWarn) ++state_.skipped;
  }
  const auto parts = snapshot_parts();
  if (options_.action == SpikeAction::kRollback && !spike.empty()) {
    roll_back(trainer, spike, batch_idx);
  } else if (!spike.empty()) {
    const bool skips = options_.action == SpikeAction::kSkip;
    if (skips) snapshot_.restore(trainer);
    rank_zero_warn(format("SpikeGuard: {} in step {}{}.", spike, state_.spikes.back(), skips ? ", which is left out" : ""));
  } else if (parts && stepped && (parts == TrainingSnapshot::Parts::kBuffers || state_.steps % options_.every_n_steps == 0)) {
    snapshot_.take(trainer, *parts);
  }
  const auto log = [&](const char* name, std::int64_t count) {
    module.log(name, static_cast<double>(count), {.on_step = true, .on_epoch = false, .reduce = Reduce::kMax});
  };
  if (options_.action == SpikeAction::kWarn) log("SpikeGuard/spikes", std::ssize(state_.spikes));
  if (options_.action != SpikeAction::kWarn) log("SpikeGuard/skipped", state_.skipped);
  if (options_.action == SpikeAction::kRollback) log("SpikeGuard/rollbacks", state_.rollbacks);
}

void SpikeGuard::on_fit_end(Trainer&, Module&) {
  std::string text = format("SpikeGuard: {} in {}", counted(state_.spikes.size(), "spike"), count_of(state_.steps, "step"));
  if (!state_.spikes.empty()) text += ": " + listed(state_.spikes);
  if (options_.action != SpikeAction::kWarn) text += format("; {} left out", count_of(state_.skipped, "step"));
  if (options_.action == SpikeAction::kRollback) text += ", " + count_of(state_.rollbacks, "rollback");
  rank_zero_info(text);
}

void SpikeGuard::on_save_checkpoint(Trainer& trainer, Module&, Checkpoint& checkpoint) {
  // One with weights alone has no states of callbacks. What is saved after a fit resumes as what it saved itself.
  if (checkpoint.manifest.contains("callbacks")) snapshot_.save(trainer, kInCheckpoint, checkpoint);
}

void SpikeGuard::on_load_checkpoint(Trainer& trainer, Module&, const Checkpoint& checkpoint) {
  if (trainer.fitting()) snapshot_.load(kInCheckpoint, checkpoint);
}

SpikeGuard::Step SpikeGuard::observe(Trainer& trainer, const torch::optim::Optimizer& optimizer) const {
  struct Share {
    StepLoss loss;
    double norm = -1;  ///< below 0: there are no gradients
  };
  Share mine{.loss = loss_of_step(trainer)};
  if (options_.threshold_gradient_norm) mine.norm = total_norm(gradient_norms(trainer, optimizer)).value_or(-1);
  Share all;
  const ExchangeSite site("SpikeGuard", "all ranks have this callback, and step the same optimizers");
  for (const Share& share : RankExchange(trainer.strategy().control_group()).gather_values(mine, site)) {
    all.loss.sum += share.loss.sum;
    all.loss.weight += share.loss.weight;
    // The same on all ranks; should one have computed another, all decide by the largest.
    if (std::isnan(share.norm) || share.norm > all.norm) all.norm = share.norm;
  }
  Step step{trainer.global_step(), static_cast<std::int64_t>(detail::index_of(optimizer, trainer)), {}, {}};
  if (all.loss.weight > 0) std::get<2>(step) = all.loss.sum / all.loss.weight;
  if (!(all.norm < 0)) std::get<3>(step) = all.norm;
  return step;
}

double SpikeGuard::limit(std::size_t which, const std::vector<double>& earlier) const {
  const std::optional<double> threshold = which == 0 ? options_.threshold_loss : options_.threshold_gradient_norm;
  if (!threshold || std::ssize(earlier) < options_.warmup) return std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(earlier.size());
  const double mean = std::accumulate(earlier.begin(), earlier.end(), 0.0) / count;
  double squares = 0;
  for (const double value : earlier) squares += (value - mean) * (value - mean);
  return mean + *threshold * std::max(std::sqrt(squares / count), kLeastDeviation * std::abs(mean));
}

std::string SpikeGuard::spike_in(const Step& step) const {
  const auto& [number, optimizer, loss, norm] = step;
  std::vector<std::string> found;
  for (std::size_t which = 0; which < kNames.size(); ++which) {
    const double value = (which == 0 ? loss : norm).value_or(0);
    const double most = limit(which, state_.earlier.at(kNames.size() * static_cast<std::size_t>(optimizer) + which));
    if (!std::isfinite(value)) {
      found.push_back(format("{} is NaN or infinite", kNames[which]));
    } else if (value > most) {
      found.push_back(format("{} leapt to {}, above {}", kNames[which], float_text(value), float_text(most)));
    }
  }
  return join(found, ", and ");
}

void SpikeGuard::add_to_history(const Step& step) {
  const auto& [number, optimizer, loss, norm] = step;
  for (std::size_t which = 0; which < kNames.size(); ++which) {
    std::vector<double>& earlier = state_.earlier.at(kNames.size() * static_cast<std::size_t>(optimizer) + which);
    const std::optional<double>& value = which == 0 ? loss : norm;
    if (!value || !std::isfinite(*value)) continue;
    earlier.push_back(std::min(*value, limit(which, earlier)));
    if (std::ssize(earlier) > options_.window) earlier.erase(earlier.begin());
  }
}

void SpikeGuard::roll_back(Trainer& trainer, const std::string& spike, std::int64_t batch_idx) {
  const std::string what = format("SpikeGuard: {} in step {}", spike, state_.spikes.back());
  if (state_.rollbacks == options_.max_rollbacks) {
    throw of_all_ranks(TrainingSpikeError(
        format("{}, after {} (max_rollbacks). Lower the learning rate, clip gradients, or look at the data of {}.", what,
               count_of(state_.rollbacks, "rollback"), listed(state_.spikes)),
        batch_idx));
  }
  std::int64_t lowerings = 1;
  if (options_.rollback_to == RollbackTo::kCheckpoint) {
    if (!snapshot_.take_newest_checkpoint(trainer)) {
      return rank_zero_warn(what + ", which is left out: there is no checkpoint yet to go back to.");
    }
    // Rates are as low as they were when it was written.
    const Value* const callbacks = snapshot_.content()->manifest.find("callbacks");
    const Value* const then = callbacks == nullptr ? nullptr : callbacks->find(state_key());
    lowerings += state_.rollbacks - (then == nullptr ? 0 : then->at("rollbacks").as_int());
  }
  try {
    snapshot_.restore(trainer);
  } catch (const ConfigError& error) {
    return rank_zero_warn(format("{}, which is left out: {}", what, error.message()));
  }
  ++state_.rollbacks;
  if (options_.lr_factor != 1) {
    scale_rates(trainer, std::pow(options_.lr_factor, static_cast<double>(lowerings)));
    if (options_.rollback_to == RollbackTo::kMemory) snapshot_.take(trainer);
  }
  if (options_.rollback_to == RollbackTo::kCheckpoint) snapshot_ = {};
  rank_zero_warn(format("{}: back to the last good state, for the {}. of {} times at most.", what, state_.rollbacks,
                        options_.max_rollbacks));
}

}  // namespace levin
