#include "levin/callbacks/weight_averaging.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/module.h"
#include "levin/core/options/registry.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

// Names in a checkpoint, as Lightning's: averages, what is trained, and how often weights were averaged. When a fit goes on
// from it, what is trained has come in place of the averages, which stand aside.
constexpr const char* kUsedPrefix = "state_dict.";
constexpr const char* kCurrentPrefix = "current_model_state.";
constexpr const char* kCount = "averaging_state.n_averaged";
constexpr const char* kAveragedPrefix = "averaged_model_state.";

template <class Options>
void declare_common(OptionList<Options>& options) {
  options.add(&Options::device, "Where averages are kept, such as cpu; null: where the module is");
  options.add(&Options::use_buffers, "Average buffers too; else they are the module's own");
}

}  // namespace

LEVIN_REGISTER_CALLBACK(WeightAveraging, "Validate, save and hand over the mean of all weights since training began");
LEVIN_REGISTER_CALLBACK(EMAWeightAveraging, "Validate, save and hand over a moving average of weights");

void WeightAveragingOptions::declare(OptionList<WeightAveragingOptions>& options) { declare_common(options); }

void EMAWeightAveragingOptions::declare(OptionList<EMAWeightAveragingOptions>& options) {
  using O = EMAWeightAveragingOptions;
  declare_common(options);
  options.add(&O::decay, "How much the average counts against new weights").min(0).max(1);
  options.add(&O::update_every_n_steps, "Steps of an optimizer from one update to the next; 0: none after steps").min(0);
  options.add(&O::update_starting_at_step, "The first step after which to update, from 0").min(0);
  options.add(&O::update_starting_at_epoch, "The first epoch after which to update too; null: none after epochs").min(0);
}

WeightAveraging::WeightAveraging(Options options) : WithOptions("WeightAveraging", std::move(options)) {}
WeightAveraging::~WeightAveraging() = default;

bool WeightAveraging::should_update(std::optional<std::int64_t> step, std::optional<std::int64_t>) const {
  return step.has_value();
}

EMAWeightAveraging::EMAWeightAveraging(const Options& options)
    : WeightAveraging({.device = options.device, .use_buffers = options.use_buffers}),
      ema_(checked("EMAWeightAveraging", options)) {}

bool EMAWeightAveraging::should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const {
  const bool at_step = step && *step >= ema_.update_starting_at_step.value_or(0) && ema_.update_every_n_steps > 0 &&
                       *step % ema_.update_every_n_steps == 0;
  return at_step || (epoch && ema_.update_starting_at_epoch && *epoch >= *ema_.update_starting_at_epoch);
}

Value WeightAveraging::state_dict() const {
  return Value::Map{{"latest_update_step", latest_step_}, {"latest_update_epoch", latest_epoch_}};
}

void WeightAveraging::load_state_dict(const Value& state) {
  latest_step_ = state.at("latest_update_step").as_int();
  // Lightning does not keep it.
  if (const Value* epoch = state.find("latest_update_epoch")) latest_epoch_ = epoch->as_int();
}

void WeightAveraging::setup(Trainer& trainer, Module&, Stage) {
  fitting_ = trainer.fitting();
  if (!fitting_) return;
  averages_.clear();
  is_swapped_ = false;
  averaged_ = 0;
  latest_step_ = 0;
  latest_epoch_ = -1;
}

void WeightAveraging::teardown(Trainer&, Module&, Stage) { fitting_ = false; }

/// Begins with averages that are the weights.
void WeightAveraging::start(Module& module) {
  names_.clear();
  own_.clear();
  averages_.clear();
  averaged_own_.clear();
  averaged_averages_.clear();
  copied_.clear();
  for (const auto& parameter : module.named_parameters()) add(parameter.key(), parameter.value(), /*takes_part=*/true);
  for (const auto& buffer : module.named_buffers()) {
    if (buffer.value().defined()) add(buffer.key(), buffer.value(), options_.use_buffers);
  }
}

void WeightAveraging::add(const std::string& name, const at::Tensor& tensor, bool takes_part) {
  const auto is_it = [&](const at::Tensor& other) { return other.is_same(tensor); };
  const auto known = std::find_if(own_.begin(), own_.end(), is_it);
  names_[name] = static_cast<std::size_t>(known - own_.begin());
  if (known != own_.end()) return;
  own_.push_back(tensor);
  const at::Device device = options_.device ? at::Device(*options_.device) : tensor.device();
  averages_.push_back(tensor.detach().to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  if (takes_part && (tensor.is_floating_point() || tensor.is_complex())) {
    averaged_own_.push_back(tensor.detach());
    averaged_averages_.push_back(averages_.back());
  } else {
    copied_.emplace_back(tensor.detach(), averages_.back());
  }
}

void WeightAveraging::update(Module& module) {
  const at::NoGradGuard no_grad;
  if (averages_.empty()) {
    start(module);
  } else {
    for (const auto& [own, copy] : copied_) copy.copy_(own);
    std::vector<at::Tensor> moved;
    if (options_.device) {
      for (std::size_t index = 0; index < averaged_own_.size(); ++index)
        moved.push_back(averaged_own_[index].to(averaged_averages_[index].device()));
    }
    at::_foreach_lerp_(averaged_averages_, options_.device ? moved : averaged_own_, share(averaged_));
  }
  ++averaged_;
}

void WeightAveraging::swap() {
  if (averages_.empty()) return;
  const at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < own_.size(); ++index) {
    const at::Tensor before = own_[index].clone();
    own_[index].copy_(averages_[index]);
    averages_[index].copy_(before);
  }
  is_swapped_ = !is_swapped_;
}

void WeightAveraging::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t) {
  const std::int64_t steps = trainer.global_step();
  if (steps <= latest_step_ || !should_update(steps - 1, std::nullopt)) return;
  update(module);
  latest_step_ = steps;
}

void WeightAveraging::on_train_epoch_end(Trainer& trainer, Module& module) {
  const std::int64_t epoch = trainer.current_epoch();
  if (epoch <= latest_epoch_ || !should_update(std::nullopt, epoch)) return;
  update(module);
  latest_epoch_ = epoch;
}

void WeightAveraging::on_validation_epoch_start(Trainer& trainer, Module& module) {
  if (!fitting_ || is_swapped_ || averages_.empty()) return;
  swap();
  // Each rank has averaged buffers of its own, and all validate with rank 0's.
  trainer.strategy().synchronize_buffers(module);
}

void WeightAveraging::on_validation_epoch_end(Trainer&, Module&) {
  if (fitting_ && is_swapped_) swap();
}

void WeightAveraging::on_exception(Trainer&, Module&, const std::exception&) {
  if (fitting_ && is_swapped_) swap();
}

// The weights that were trained stay beside it, for checkpoints that are saved from here on.
void WeightAveraging::on_train_end(Trainer&, Module&) {
  if (!is_swapped_) swap();
}

// Of a run that goes on from where training had ended.
void WeightAveraging::on_fit_end(Trainer&, Module&) {
  if (!is_swapped_) swap();
}

void WeightAveraging::on_save_checkpoint(Trainer&, Module&, Checkpoint& checkpoint) {
  if (averages_.empty() || !fitting_) return;
  checkpoint.tensors[kCount] = at::scalar_tensor(averaged_, at::kLong);
  for (const auto& [name, index] : names_) {
    const auto saved = checkpoint.tensors.find(kUsedPrefix + name);
    if (saved == checkpoint.tensors.end()) continue;
    checkpoint.tensors[kCurrentPrefix + name] = is_swapped_ ? averages_[index] : own_[index].detach();
    saved->second = is_swapped_ ? own_[index].detach() : averages_[index];
  }
}

void WeightAveraging::on_load_checkpoint(Trainer&, Module& module, const Checkpoint& checkpoint) {
  const auto count = checkpoint.tensors.find(kCount);
  if (!fitting_ || count == checkpoint.tensors.end() || count->second.item<std::int64_t>() == 0) return;
  averaged_ = count->second.item<std::int64_t>();
  const at::NoGradGuard no_grad;
  start(module);
  for (const auto& [name, index] : names_) {
    const auto saved = checkpoint.tensors.find(kAveragedPrefix + name);
    if (saved != checkpoint.tensors.end()) averages_[index].copy_(saved->second);
  }
}

}  // namespace levin
