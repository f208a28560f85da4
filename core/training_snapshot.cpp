#include "levin/core/training_snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/checkpoint/tensor_range.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

/// True when the states belong to such schedulers, by their keys.
bool are_of(const std::vector<SchedulerConfig>& schedulers, const Value& states) {
  const auto has_keys = [](const SchedulerConfig& config, const Value& saved) {
    const Value own = config.scheduler->state_dict();
    if (!own.is_map() || !saved.is_map()) return own.is_map() == saved.is_map();
    return own.size() == saved.size() &&
           std::ranges::all_of(own.as_map(), [&](const auto& entry) { return saved.contains(entry.first); });
  };
  return std::ranges::equal(schedulers, states.as_list(), has_keys);
}

}  // namespace

bool TrainingSnapshot::has(Parts parts) const {
  return !empty() && content_->manifest.contains("lr_schedulers") == (parts == Parts::kAll);
}

void TrainingSnapshot::take(const Trainer& trainer, Parts parts) {
  const at::NoGradGuard no_grad;
  const TrainerState& run = TrainerState::of(trainer);
  Checkpoint now;
  if (parts == Parts::kBuffers) {
    for (const auto& buffer : run.module().named_buffers()) {
      if (buffer.value().defined()) now.tensors[buffer.key()] = buffer.value();
    }
  } else {
    levin::save_module(run.module(), now);
    for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
      levin::save_optimizer(*run.parts.optimizers[index], index, now);
    }
    now.manifest["gradient_scaler"] = run.scaler.state();
    now.manifest["lr_schedulers"] = states_of(run.parts.schedulers);
  }
  std::vector<at::Tensor> places;
  std::vector<at::Tensor> values;
  const std::map<std::string, at::Tensor> none;
  const auto& earlier = content_ && is_own_ ? content_->tensors : none;
  for (auto& [name, tensor] : now.tensors) {
    const auto place = earlier.find(name);
    if (place != earlier.end() && place->second.sizes() == tensor.sizes() &&
        place->second.options().type_equal(tensor.options())) {
      places.push_back(place->second);
      values.push_back(std::exchange(tensor, place->second));
    } else {
      tensor = tensor.detach().clone();
    }
  }
  if (!places.empty()) at::_foreach_copy_(places, values);
  content_ = std::make_shared<const Checkpoint>(std::move(now));
  is_own_ = true;
}

bool TrainingSnapshot::take_newest_checkpoint(const Trainer& trainer) {
  TrainerState& run = TrainerState::of(trainer);
  std::string file;
  if (run.is_global_zero()) {
    run.files.wait();
    if (!run.resume.good_file.empty() && is_there(run.resume.good_file)) file = run.resume.good_file.string();
  }
  file = run.rank_exchange().broadcast_text(file, {"going back to a checkpoint", "all decide alike whether to"});
  if (file.empty()) return false;
  Checkpoint read = Checkpoint::load(file);
  take_trained_weights(read, /*in_place_of_averages=*/true);
  content_ = std::make_shared<const Checkpoint>(std::move(read));
  is_own_ = false;
  return true;
}

void TrainingSnapshot::restore(const Trainer& trainer) const {
  const at::NoGradGuard no_grad;
  TrainerState& run = TrainerState::of(trainer);
  const Value* const schedulers = content_->manifest.find("lr_schedulers");
  if (schedulers == nullptr) {
    for (const auto& buffer : run.module().named_buffers()) {
      const auto saved = content_->tensors.find(buffer.key());
      if (saved != content_->tensors.end()) at::Tensor(buffer.value()).copy_(saved->second);
    }
    return;
  }
  const bool has_same_schedulers = are_of(run.parts.schedulers, *schedulers);
  // Optimizers first: when one does not fit, nothing has changed.
  Strategy& strategy = run.strategy();
  for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
    torch::optim::Optimizer& optimizer = *run.parts.optimizers[index];
    const std::vector<double> rates = get_lrs(optimizer);
    is_own_ ? levin::load_optimizer(optimizer, index, *content_) : strategy.load_optimizer(optimizer, index, *content_);
    // They belong to the present schedulers.
    for (std::size_t group = 0; group < rates.size() && !has_same_schedulers; ++group) {
      set_lr(optimizer.param_groups()[group], rates[group]);
    }
  }
  is_own_ ? levin::load_module(run.module(), *content_) : strategy.load_module(run.module(), *content_);
  if (has_same_schedulers) {
    for (std::size_t index = 0; index < run.parts.schedulers.size(); ++index) {
      run.parts.schedulers[index].scheduler->load_state_dict(schedulers->as_list()[index]);
    }
  }
  const Value* const scaler = content_->manifest.find("gradient_scaler");
  if (scaler != nullptr && !scaler->is_null()) run.scaler.load_state(*scaler);
}

void TrainingSnapshot::save(const Trainer& trainer, const std::string& prefix, Checkpoint& checkpoint) const {
  if (empty() || trainer.strategy().divides_optimizers()) return;
  for (const auto& [name, tensor] : content_->tensors) checkpoint.tensors[prefix + name] = tensor;
  checkpoint.manifest[prefix] = content_->manifest;
}

void TrainingSnapshot::load(const std::string& prefix, const Checkpoint& checkpoint) {
  const Value* const manifest = checkpoint.manifest.find(prefix);
  if (manifest == nullptr) return;
  Checkpoint read;
  read.manifest = *manifest;
  for (const auto& [name, tensor] : tensors_with_prefix(checkpoint, prefix)) {
    read.tensors[name.substr(prefix.size())] = tensor.clone();
  }
  content_ = std::make_shared<const Checkpoint>(std::move(read));
}

}  // namespace levin
