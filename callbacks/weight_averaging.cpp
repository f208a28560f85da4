#include "levin/callbacks/weight_averaging.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/module.h"
#include "levin/core/options/registry.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

// Names in a checkpoint, as Lightning's: how often weights were averaged, and what is trained. When a fit goes on from it, what
// is trained has come in place of the averages, which stand aside.
constexpr const char* kCount = "averaging_state.n_averaged";
constexpr const char* kCurrentPrefix = "current_model_state.";
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
  latest_step_ = 0;
  latest_epoch_ = -1;
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

}  // namespace levin
