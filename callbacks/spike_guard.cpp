#include "levin/callbacks/spike_guard.h"

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"
#include "levin/core/training_snapshot.h"

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

LEVIN_REGISTER_CALLBACK(SpikeGuard, "Skip steps whose loss or gradients leap away, or go back to before");

void SpikeGuardOptions::declare(OptionList<SpikeGuardOptions>& options) {
  using O = SpikeGuardOptions;
  options.add(&O::action, "What follows a spike: a warning, the step left out, or going back");
  options.add(&O::window, "Steps whose mean and deviation a step is compared with").min(2);
  options.add(&O::warmup, "Steps before the first that is compared").min(2);
  options.add(&O::threshold_loss, "Deviations above the mean at which a loss is a spike; null: any finite one is good")
      .above(0)
      .instead("null takes any finite loss for good");
  options.add(&O::threshold_gradient_norm, "The same of the gradients' norm; null: any finite one is good")
      .above(0)
      .instead("null takes any finite norm for good");
  options.add(&O::rollback_to, "Where the state is that a rollback goes back to");
  options.add(&O::every_n_steps, "Steps from one state that memory keeps to the next").min(1);
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

std::optional<TrainingSnapshot::Parts> SpikeGuard::kept() const {
  if (options_.action == SpikeAction::kSkip) return TrainingSnapshot::Parts::kBuffers;
  const bool keeps = options_.action == SpikeAction::kRollback && options_.rollback_to == RollbackTo::kMemory;
  return keeps ? std::optional(TrainingSnapshot::Parts::kAll) : std::nullopt;
}

// Where a run that goes on has the groups of its optimizers back.
void SpikeGuard::on_train_batch_start(Trainer& trainer, Module&, const Batch&, std::int64_t) {
  // A checkpoint may have what another action has kept.
  if (const auto parts = kept(); !parts) {
    good_ = {};
  } else if (!good_.has(*parts)) {
    good_.take(trainer, *parts);
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
    remember(step);
    ++state_.steps;
    if (found.empty()) continue;
    spike = found;
    state_.spikes.push_back(std::get<0>(step));
    if (options_.action != SpikeAction::kWarn) ++state_.skipped;
  }
  const auto parts = kept();
  if (options_.action == SpikeAction::kRollback && !spike.empty()) {
    go_back(trainer, spike, batch_idx);
  } else if (!spike.empty()) {
    const bool skips = options_.action == SpikeAction::kSkip;
    if (skips) good_.restore(trainer);
    rank_zero_warn(format("SpikeGuard: {} in step {}{}.", spike, state_.spikes.back(), skips ? ", which is left out" : ""));
  } else if (parts && stepped && (parts == TrainingSnapshot::Parts::kBuffers || state_.steps % options_.every_n_steps == 0)) {
    good_.take(trainer, *parts);
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
  // One with weights alone has no states of callbacks. What is saved behind a fit goes on as what it saved itself.
  if (checkpoint.manifest.contains("callbacks")) good_.save(trainer, kInCheckpoint, checkpoint);
}

void SpikeGuard::on_load_checkpoint(Trainer& trainer, Module&, const Checkpoint& checkpoint) {
  if (trainer.fitting()) good_.load(kInCheckpoint, checkpoint);
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

void SpikeGuard::remember(const Step& step) {
  const auto& [number, optimizer, loss, norm] = step;
  for (std::size_t which = 0; which < kNames.size(); ++which) {
    std::vector<double>& earlier = state_.earlier.at(kNames.size() * static_cast<std::size_t>(optimizer) + which);
    const std::optional<double>& value = which == 0 ? loss : norm;
    if (!value || !std::isfinite(*value)) continue;
    earlier.push_back(std::min(*value, limit(which, earlier)));
    if (std::ssize(earlier) > options_.window) earlier.erase(earlier.begin());
  }
}

void SpikeGuard::go_back(Trainer& trainer, const std::string& spike, std::int64_t batch_idx) {
  const std::string what = format("SpikeGuard: {} in step {}", spike, state_.spikes.back());
  if (state_.rollbacks == options_.max_rollbacks) {
    throw of_all_ranks(TrainingSpikeError(
        format("{}, after {} (max_rollbacks). Lower the learning rate, clip gradients, or look at the data of {}.", what,
               count_of(state_.rollbacks, "rollback"), listed(state_.spikes)),
        batch_idx));
  }
  std::int64_t lowerings = 1;
  if (options_.rollback_to == RollbackTo::kCheckpoint) {
    if (!good_.take_newest_checkpoint(trainer)) {
      return rank_zero_warn(what + ", which is left out: there is no checkpoint yet to go back to.");
    }
    // Rates are as low as they were when it was written.
    const Value* const callbacks = good_.content()->manifest.find("callbacks");
    const Value* const then = callbacks == nullptr ? nullptr : callbacks->find(state_key());
    lowerings += state_.rollbacks - (then == nullptr ? 0 : then->at("rollbacks").as_int());
  }
  try {
    good_.restore(trainer);
  } catch (const ConfigError& error) {
    return rank_zero_warn(format("{}, which is left out: {}", what, error.message()));
  }
  ++state_.rollbacks;
  if (options_.lr_factor != 1) {
    scale_rates(trainer, std::pow(options_.lr_factor, static_cast<double>(lowerings)));
    if (options_.rollback_to == RollbackTo::kMemory) good_.take(trainer);
  }
  if (options_.rollback_to == RollbackTo::kCheckpoint) good_ = {};
  rank_zero_warn(format("{}: back to the last good state, for the {}. of {} times at most.", what, state_.rollbacks,
                        options_.max_rollbacks));
}

namespace {

/// What a rank says of its batch.
struct Seen {
  enum Kind : std::uint8_t { kNothing, kLoss, kNotFinite, kSpike };
  double loss = 0;
  std::int64_t kind = kNothing;
};

/// NaN, which the first batches of a run may have, does not count; NaN when there is nothing else.
double mean_of(const std::vector<double>& losses) {
  double sum = 0;
  int count = 0;
  for (const double loss : losses) {
    if (std::isnan(loss)) continue;
    sum += loss;
    ++count;
  }
  return sum / count;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(SpikeDetection, "End a run whose loss leaps away, and list the batches that it saw then");

void SpikeDetectionOptions::declare(OptionList<SpikeDetectionOptions>& options) {
  using O = SpikeDetectionOptions;
  options.add(&O::mode, "Which losses are better");
  options.add(&O::window, "Batches whose mean a loss is compared with").min(1);
  options.add(&O::warmup, "Batches of an epoch before the first one that is looked at").min(0);
  options.add(&O::atol, "A spike is at least this far from the mean; null: however near");
  options.add(&O::rtol, "A spike is at least this many times the mean away from it; null: however near");
  options.add(&O::exclude_batches_path, "Folder of skip_batches.json, or the file; empty: default_root_dir");
  options.add(&O::finite_only, "A loss that is NaN or infinite is a spike, too");
}

Value SpikeDetection::state_dict() const { return write_options(state_); }

void SpikeDetection::load_state_dict(const Value& state) { detail::read_state(state, state_); }

void SpikeDetection::on_train_batch_end(Trainer& trainer, Module&, const StepOutput& output, const Batch&,
                                        std::int64_t batch_idx) {
  Seen mine;
  const double mean = mean_of(state_.running);
  if (output.loss.defined()) {
    mine.loss = output.loss.item<double>();
    mine.kind = batch_idx >= options_.warmup && is_spike(mine.loss, mean) ? Seen::kSpike
                : std::isfinite(mine.loss)                                ? Seen::kLoss
                                                                          : Seen::kNotFinite;
  }
  const std::vector<Seen> all =
      RankExchange(trainer.strategy().control_group()).gather_values(mine, {"SpikeDetection", "all ranks have this callback"});
  const auto has = [&](std::int64_t kind) {
    return std::find_if(all.begin(), all.end(), [&](const Seen& seen) { return seen.kind == kind; });
  };
  if (const auto spike = has(Seen::kSpike); spike != all.end()) {
    state_.bad_batches.insert(state_.bad_batches.end(), {batch_idx - 1, batch_idx});
    const std::filesystem::path file = write_bad_batches(trainer);
    throw of_all_ranks(TrainingSpikeError(
        format(
            "SpikeDetection: the loss leapt to {} in batch {} of epoch {} (step {}) on rank {}. Batches {} and {} are listed "
            "in {}: leave them out, or lower the learning rate.",
            float_text(spike->loss), batch_idx, trainer.current_epoch(), trainer.global_step(), spike - all.begin(),
            batch_idx - 1, batch_idx, file),
        batch_idx));
  }
  if (mine.kind == Seen::kNothing || (!options_.finite_only && has(Seen::kNotFinite) != all.end())) return;
  state_.last_val = mine.loss;
  state_.running.push_back(mine.loss);
  if (std::ssize(state_.running) > options_.window) state_.running.erase(state_.running.begin());
}

bool SpikeDetection::is_spike(double loss, double mean) const {
  if (options_.finite_only && !std::isfinite(loss)) return true;
  const bool is_better = options_.mode == MonitorMode::kMin ? loss <= state_.last_val : loss >= state_.last_val;
  if (is_better) return false;
  const double distance = std::abs(loss - mean);
  // A distance that is NaN, as before the first loss, is none.
  return (!options_.atol || distance >= std::abs(*options_.atol)) &&
         (!options_.rtol || distance >= std::abs(*options_.rtol * mean));
}

std::filesystem::path SpikeDetection::write_bad_batches(const Trainer& trainer) const {
  std::filesystem::path file = options_.exclude_batches_path;
  if (file.empty()) file = trainer.default_root_dir();
  if (file.extension() != ".json") file /= "skip_batches.json";
  if (trainer.is_global_zero()) {
    AtomicFile output(file);
    output.write(to_json(Value(Value::List(state_.bad_batches.begin(), state_.bad_batches.end()))) + "\n");
    output.commit();
  }
  return file;
}

TrainingSpikeError::~TrainingSpikeError() = default;

}  // namespace levin
