#include "levin/callbacks/weight_averaging.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

// Names in a checkpoint, as Lightning's: how often weights were averaged, and what is trained. When a fit resumes from it, what
// is trained replaces the averages, which are stored separately.
constexpr const char* kCount = "averaging_state.n_averaged";
constexpr const char* kCurrentPrefix = "current_model_state.";
constexpr const char* kAveragedPrefix = "averaged_model_state.";
// What StochasticWeightAveraging's statistics were before training's end renewed them.
constexpr const char* kBufferPrefix = "StochasticWeightAveraging.buffers.";

template <class Options>
void declare_common(OptionList<Options>& options) {
  options.add(&Options::device, "Where averages are stored, such as cpu; null: where the module is");
  options.add(&Options::use_buffers, "Average buffers too; else they are the module's own");
}

}  // namespace

LEVIN_REGISTER_CALLBACK(WeightAveraging, "Validate, save and hand over the mean of all weights since training began");

void WeightAveragingOptions::declare(OptionList<WeightAveragingOptions>& options) { declare_common(options); }

WeightAveraging::WeightAveraging(Options options) : WithOptions("WeightAveraging", std::move(options)) {}

bool WeightAveraging::should_update(std::optional<std::int64_t> step, std::optional<std::int64_t>) const {
  return step.has_value();
}

Value WeightAveraging::state_dict() const { return write_options(state_); }
void WeightAveraging::load_state_dict(const Value& state) { detail::read_state(state, state_); }

void WeightAveraging::clear() {
  weights_.clear();
  averaged_own_.clear();
  averages_.clear();
  copied_.clear();
}

void WeightAveraging::setup(Trainer& trainer, Module&, Stage) {
  if (!trainer.fitting()) return;
  clear();
  averaged_ = 0;
  state_ = {};
}

/// Begins with averages that are the weights, or those of a checkpoint that has some.
void WeightAveraging::start(const Module& module, const Checkpoint& saved) {
  clear();
  std::set<const at::TensorImpl*> known;  // one that has two names counts once
  const auto add = [&](const std::string& name, const at::Tensor& tensor, bool takes_part) {
    if (!tensor.defined() || !known.insert(tensor.unsafeGetTensorImpl()).second) return;
    const at::Device device = options_.device ? at::Device(*options_.device) : tensor.device();
    const at::Tensor average = tensor.detach().to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    const auto other = saved.tensors.find(kAveragedPrefix + name);
    if (other != saved.tensors.end()) average.copy_(other->second);
    weights_.push_back({tensor, average});
    if (takes_part && (tensor.is_floating_point() || tensor.is_complex())) {
      averaged_own_.push_back(tensor.detach());
      averages_.push_back(average);
    } else {
      copied_.push_back({tensor.detach(), average});
    }
  };
  for (const auto& parameter : module.named_parameters()) add(parameter.key(), parameter.value(), /*takes_part=*/true);
  for (const auto& buffer : module.named_buffers()) add(buffer.key(), buffer.value(), options_.use_buffers);
}

at::Tensor WeightAveraging::average_of(const at::Tensor& tensor) const {
  const auto is_it = [&](const WeightPair& pair) { return pair.trained.is_same(tensor); };
  const auto found = std::find_if(weights_.begin(), weights_.end(), is_it);
  return found == weights_.end() ? at::Tensor() : found->evaluated;
}

void WeightAveraging::update(const Module& module) {
  const at::NoGradGuard no_grad;
  if (weights_.empty()) {
    start(module, {});
  } else {
    for (const WeightPair& pair : copied_) pair.evaluated.copy_(pair.trained);
    std::vector<at::Tensor> moved;
    if (options_.device) {
      for (std::size_t index = 0; index < averages_.size(); ++index)
        moved.push_back(averaged_own_[index].to(averages_[index].device()));
    }
    at::_foreach_lerp_(averages_, options_.device ? moved : averaged_own_, share(averaged_));
  }
  ++averaged_;
}

void WeightAveraging::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t) {
  const std::int64_t steps = trainer.global_step();
  if (steps <= state_.latest_update_step || !should_update(steps - 1, std::nullopt)) return;
  update(module);
  state_.latest_update_step = steps;
}

void WeightAveraging::on_train_epoch_end(Trainer& trainer, Module& module) {
  if (trainer.epoch_is_unfinished()) return;
  const std::int64_t epoch = trainer.current_epoch();
  if (epoch <= state_.latest_update_epoch || !should_update(std::nullopt, epoch)) return;
  update(module);
  state_.latest_update_epoch = epoch;
}

void WeightAveraging::on_save_checkpoint(Trainer&, Module&, Checkpoint& checkpoint) {
  const auto current = checkpoint.tensors.lower_bound(kCurrentPrefix);
  if (weights_.empty() || current == checkpoint.tensors.end() || !current->first.starts_with(kCurrentPrefix)) return;
  checkpoint.tensors[kCount] = at::scalar_tensor(averaged_, at::kLong);
}

void WeightAveraging::on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) {
  const auto count = checkpoint.tensors.find(kCount);
  if (!trainer.fitting() || count == checkpoint.tensors.end() || count->second.item<std::int64_t>() == 0) return;
  averaged_ = count->second.item<std::int64_t>();
  const at::NoGradGuard no_grad;
  start(module, checkpoint);
}

LEVIN_REGISTER_CALLBACK(EMAWeightAveraging, "Validate, save and hand over a moving average of weights");

void EMAWeightAveragingOptions::declare(OptionList<EMAWeightAveragingOptions>& options) {
  using O = EMAWeightAveragingOptions;
  declare_common(options);
  options.add(&O::decay, "How much the average counts against new weights").min(0).max(1);
  options.add(&O::update_every_n_steps, "Steps of an optimizer from one update to the next; 0: none after steps").min(0);
  options.add(&O::update_starting_at_step, "The first step after which to update, from 0").min(0);
  options.add(&O::update_starting_at_epoch, "The first epoch after which to update too; null: none after epochs").min(0);
}

EMAWeightAveraging::EMAWeightAveraging(const Options& options)
    : WeightAveraging({.device = options.device, .use_buffers = options.use_buffers}),
      ema_(checked("EMAWeightAveraging", options)) {}

bool EMAWeightAveraging::should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const {
  const bool at_step = step && *step >= ema_.update_starting_at_step.value_or(0) && ema_.update_every_n_steps > 0 &&
                       *step % ema_.update_every_n_steps == 0;
  return at_step || (epoch && ema_.update_starting_at_epoch && *epoch >= *ema_.update_starting_at_epoch);
}

namespace {

/// A running mean or variance of a layer's inputs, as BatchNorm has them: known by the names of buffers.
struct Statistic {
  at::Tensor running;
  at::Tensor batches;   ///< their number, where the layer counts them
  at::Tensor sum;       ///< over all samples
  double momentum = 0;  ///< how much a batch counts in `running`

  /// As if no batch had been seen.
  void begin_at(double value) const {
    running.fill_(value);
    if (batches.defined()) batches.zero_();
  }
  /// LibTorch's modules do not expose their momentum: it is what a forward pass takes from a number far above its inputs.
  double far_above() const { return running.scalar_type() == at::kHalf ? 3e4 : 1e30; }
};

std::vector<Statistic> statistics_of(const Module& module) {
  std::vector<Statistic> found;
  for (const auto& layer : module.modules(/*include_self=*/false)) {
    const auto buffers = layer->named_buffers(/*recurse=*/false);
    const at::Tensor* const batches = buffers.find("num_batches_tracked");
    for (const char* name : {"running_mean", "running_var"}) {
      const at::Tensor* const running = buffers.find(name);
      // Frozen layers keep what they have.
      if (running == nullptr || !running->defined() || !layer->is_training()) continue;
      found.push_back({*running, batches == nullptr ? at::Tensor() : *batches, at::zeros_like(*running, at::kDouble)});
    }
  }
  return found;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(StochasticWeightAveraging, "Average weights of the last epochs, at a constant learning rate");

void StochasticWeightAveragingOptions::declare(OptionList<StochasticWeightAveragingOptions>& options) {
  using O = StochasticWeightAveragingOptions;
  options.add(&O::swa_lrs, "Learning rate while weights are averaged; a list gives one for each parameter group").required();
  options.add(&O::swa_epoch_start, "The epoch to begin at, from 1, or a share of max_epochs from 0 to 1");
  options.add(&O::annealing_epochs, "Epochs in which the rate reaches swa_lrs").min(0);
  options.add(&O::annealing_strategy, "Shape of the change").choices({"cos", "linear"});
  options.add(&O::device, "Where averages are stored; null: where the module is");
  options.rule({"swa_lrs"}, [](const O& swa) {
    const Value::List one = {swa.swa_lrs};
    const Value::List& rates = swa.swa_lrs.is_list() ? swa.swa_lrs.as_list() : one;
    const auto is_rate = [](const Value& rate) { return rate.is_number() && rate.as_double() > 0; };
    return std::all_of(rates.begin(), rates.end(), is_rate) ? "" : "swa_lrs must be a number above 0, or a list of them";
  });
  options.rule({"swa_epoch_start"}, [](const O& swa) {
    const Limit& start = swa.swa_epoch_start;
    const bool fits = start.is_share() ? start.share() >= 0 && start.share() <= 1 : start.batches() >= 1;
    return fits ? "" : "swa_epoch_start must be an integer above 0, or a float from 0 to 1";
  });
}

StochasticWeightAveraging::StochasticWeightAveraging(const Options& options)
    : WeightAveraging({.device = options.device}), swa_(checked("StochasticWeightAveraging", options)) {}

// An epoch ends with what the next one begins with. Weights that nothing has trained are not averaged.
bool StochasticWeightAveraging::should_update(std::optional<std::int64_t>, std::optional<std::int64_t> epoch) const {
  return epoch && *epoch >= first_epoch_ - 1;
}

Value StochasticWeightAveraging::state_dict() const {
  Value state = WeightAveraging::state_dict();
  state["has_taken_over"] = has_taken_over_;
  state["statistics_of"] = statistics_of_;
  return state;
}

void StochasticWeightAveraging::load_state_dict(const Value& state) {
  WeightAveraging::load_state_dict(state);
  has_taken_over_ = state.at("has_taken_over").as_bool();
  statistics_of_ = state.at("statistics_of").as_int();
}

void StochasticWeightAveraging::setup(Trainer& trainer, Module& module, Stage stage) {
  WeightAveraging::setup(trainer, module, stage);
  if (!trainer.fitting()) return;
  has_taken_over_ = false;
  statistics_of_ = statistics_before_end_ = 0;
  buffers_before_end_.clear();
}

void StochasticWeightAveraging::on_fit_start(Trainer& trainer, Module& module) {
  if (trainer.optimizers().size() != 1 || !module.automatic_optimization()) {
    throw ConfigError(
        "StochasticWeightAveraging sets the learning rate of one optimizer, under automatic optimization. For several, or "
        "steps that training_step takes itself, use WeightAveraging, which leaves rates alone.");
  }
  if (!has_training_data(trainer) && !statistics_of(module).empty()) {
    throw ConfigError(
        "StochasticWeightAveraging reads the training data to renew the statistics of layers such as BatchNorm, and a Session "
        "has none to read. Use EMAWeightAveraging with use_buffers, or layers without such statistics.");
  }
  const std::int64_t epochs = *trainer.options().max_epochs;
  if (swa_.swa_epoch_start.is_share() && epochs < 0) {
    throw ConfigError(
        "StochasticWeightAveraging: swa_epoch_start is a share of max_epochs, which is -1, no limit. Give it as an integer, "
        "or set max_epochs.");
  }
  const std::int64_t start = swa_.swa_epoch_start.is_share()
                                 ? static_cast<std::int64_t>(static_cast<double>(epochs) * swa_.swa_epoch_start.share())
                                 : swa_.swa_epoch_start.batches();
  first_epoch_ = std::max<std::int64_t>(start - 1, 0);
  // What hooks have added to the optimizer comes with the checkpoint's state, and so do rates of each group.
  if (has_taken_over_) replace_schedulers(trainer, swa_.swa_lrs.is_list() ? swa_.swa_lrs.as_list().front() : swa_.swa_lrs);
}

void StochasticWeightAveraging::on_train_epoch_start(Trainer& trainer, Module&) {
  if (has_taken_over_ || trainer.current_epoch() < first_epoch_) return;
  rank_zero_info(trainer.scheduler_configs().empty() ? "StochasticWeightAveraging: SWALR sets the learning rate from here on."
                                                     : "StochasticWeightAveraging: SWALR replaces the schedulers.");
  replace_schedulers(trainer, swa_.swa_lrs);
  has_taken_over_ = true;
}

void StochasticWeightAveraging::on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) {
  WeightAveraging::on_save_checkpoint(trainer, module, checkpoint);
  Value* const states = checkpoint.manifest.find("callbacks");
  Value* const own = states == nullptr ? nullptr : states->find(state_key());
  if (own == nullptr || buffers_before_end_.empty()) return;
  (*own)["statistics_of"] = statistics_before_end_;
  for (const auto& [name, average] : buffers_before_end_) checkpoint.tensors[kBufferPrefix + name] = average;
}

void StochasticWeightAveraging::on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) {
  WeightAveraging::on_load_checkpoint(trainer, module, checkpoint);
  if (!trainer.fitting()) return;
  const at::NoGradGuard no_grad;
  for (const auto& buffer : module.named_buffers()) {
    const auto saved = checkpoint.tensors.find(kBufferPrefix + buffer.key());
    const at::Tensor average = average_of(buffer.value());
    if (saved != checkpoint.tensors.end() && average.defined()) average.copy_(saved->second);
  }
}

// Before the epoch's validation, which sees what it has brought.
void StochasticWeightAveraging::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&,
                                                   std::int64_t) {
  if (!trainer.is_last_batch()) return;
  on_train_epoch_end(trainer, module);
  if (trainer.current_epoch() + 1 == trainer.options().max_epochs) renew_statistics(trainer, module);
}

void StochasticWeightAveraging::on_training_done(Trainer& trainer, Module& module) {
  if (statistics_of_ == averaged()) return;
  // A run that resumes at this end validates averages of statistics, as one that has not ended.
  statistics_before_end_ = statistics_of_;
  for (const auto& buffer : module.named_buffers()) {
    const at::Tensor average = average_of(buffer.value());
    if (average.defined()) buffers_before_end_[buffer.key()] = average.clone();
  }
  renew_statistics(trainer, module);
}

void StochasticWeightAveraging::replace_schedulers(Trainer& trainer, const Value& lr) const {
  const Value arguments =
      Value::Map{{"swa_lr", lr}, {"anneal_epochs", swa_.annealing_epochs}, {"anneal_strategy", swa_.annealing_strategy}};
  const Component<LrSchedulerFactory> factory(Value("SWALR"), arguments);
  trainer.set_schedulers({{.scheduler = factory.get()->make(*trainer.optimizers().front())}});
}

void StochasticWeightAveraging::renew_statistics(Trainer& trainer, Module& module) {
  if (std::exchange(statistics_of_, averaged()) == averaged()) return;
  std::vector<Statistic> statistics = statistics_of(module);
  if (statistics.empty()) return;
  double samples = 0;
  trainer.visit_training_data([&](const Batch& batch, std::int64_t batch_idx) {
    if (samples == 0) {
      for (const Statistic& one : statistics) one.begin_at(one.far_above());
      module.training_step(batch, batch_idx);
      for (Statistic& one : statistics) one.momentum = 1 - one.running.flatten()[0].item<double>() / one.far_above();
    }
    for (const Statistic& one : statistics) one.begin_at(0);
    module.training_step(batch, batch_idx);
    const auto size = static_cast<double>(batch.batch_size());
    samples += size;
    for (const Statistic& one : statistics) {
      if (one.momentum > 0) one.sum.add_(one.running, size / one.momentum);
    }
  });
  const at::NoGradGuard no_grad;
  for (const Statistic& one : statistics) {
    // A layer that is not used takes nothing.
    const at::Tensor count = at::full({1}, one.momentum > 0 ? samples : 0, one.sum.options());
    const at::Tensor own = at::cat({count, one.sum.flatten()}).to(at::kCPU);
    std::vector<std::byte> bytes =
        RankExchange(trainer.strategy().control_group())
            .gather_bytes({static_cast<const std::byte*>(own.const_data_ptr()), own.nbytes()},
                          {"statistics of StochasticWeightAveraging", "all train the same module, and end together"});
    const at::Tensor all = at::from_blob(bytes.data(), {trainer.world_size(), own.numel()}, own.options()).sum(0);
    if (all[0].item<double>() > 0) average_of(one.running).copy_((all.slice(0, 1) / all[0]).view_as(one.running));
  }
}

}  // namespace levin
