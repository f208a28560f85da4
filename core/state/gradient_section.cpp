#include "levin/core/state/gradient_section.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/checkpoint/tensor_range.h"
#include "levin/core/module.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

constexpr std::string_view kGradients = "gradients.";

/// The gradients that a module's parameters hold, by name, on the CPU and not shared with the parameters.
std::map<std::string, at::Tensor> gradients_of(const Module& module) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const at::Tensor own = gradient.detach().to(at::kCPU, parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    gradients[name] = own.is_sparse() ? own : own.contiguous();
  }
  return gradients;
}

/// Gives parameters these gradients times `factor`, and all others none. Throws ConfigError for a name or shape that the module
/// does not have.
void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor) {
  const at::NoGradGuard no_grad;
  const auto all = module.named_parameters();
  for (const auto& [name, gradient] : gradients) {
    if (all.find(name) == nullptr) {
      throw ConfigError("ckpt_path: the checkpoint has gradients of parameters that the module lacks.");
    }
  }
  for (auto& [name, parameter] : distinct_parameters(module)) {
    const auto saved = gradients.find(name);
    if (saved == gradients.end()) {
      parameter.mutable_grad().reset();
      continue;
    }
    if (saved->second.sizes() != parameter.sizes()) {
      throw ConfigError(format("ckpt_path: the gradient of {} is of shape {}, the parameter of {}.", name,
                               c10::str(saved->second.sizes()), c10::str(parameter.sizes())));
    }
    at::Tensor gradient = saved->second.to(parameter.device(), parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    if (factor != 1.0) gradient.mul_(factor);
    parameter.mutable_grad() = gradient;
  }
}

/// Automatic optimization needs them while a window is open; under manual optimization only the user's code knows.
bool gradients_matter(const TrainerState& run) {
  if (run.accumulation.window.open) return true;
  return !run.module().automatic_optimization() && run.is_global_zero();
}

/// Adds the gradients of a rank of the saved run to `gradients`.
void add_gradients(const Checkpoint& checkpoint, const Module& module, int rank, std::map<std::string, at::Tensor>& gradients) {
  const std::string prefix = format("{}{}.", kGradients, rank);
  const auto parameters = module.named_parameters();
  for (const auto& [full_name, tensor] : tensors_with_prefix(checkpoint, prefix)) {
    std::string name = full_name.substr(prefix.size());
    if (is_of_sparse_values(name)) continue;
    at::Tensor gradient = tensor;
    if (const auto sparse = name_of_sparse_tensor(name)) {
      name = *sparse;
      const at::Tensor* const parameter = parameters.find(name);
      if (parameter != nullptr) gradient = saved_sparse_tensor(checkpoint, prefix + name, parameter->sizes());
    }
    const auto [own, is_new] = gradients.try_emplace(name, gradient);
    if (is_new) continue;
    if (own->second.sizes() != gradient.sizes()) {
      throw ConfigError("ckpt_path: the checkpoint has gradients of '" + own->first + "' that differ in shape.");
    }
    own->second = own->second.is_sparse() ? gradient + own->second : own->second + gradient;
  }
}

}  // namespace

void GradientSection::save(TrainerState& run, Checkpoint& checkpoint) {
  const GradientAccumulation& accumulation = run.accumulation;
  const bool changed = accumulation.batches != run.options().accumulate_grad_batches;
  Value& loops = checkpoint.manifest["loops"];
  loops["window_open"] = accumulation.window.open;
  loops["window_scale"] = accumulation.scale();
  loops["accumulate_grad_batches"] = changed ? Value(accumulation.batches) : Value();
}

void GradientSection::save_own(TrainerState& run, RankState& state) {
  const GradientWindow& window = run.accumulation.window;
  const StepLoss loss = window.open || !run.module().automatic_optimization() ? run.measures.losses.total() : StepLoss();
  state.manifest["window_weight"] = window.weight;
  state.manifest["window_loss"] = Value::List{loss.sum, loss.weight};
  state.manifest["bad_loss"] = run.nan.waits_to_skip();
  if (!gradients_matter(run)) return;
  for (const auto& [name, gradient] : gradients_of(run.module())) {
    save_tensor(state, format("{}{}.{}", kGradients, run.strategy().rank(), name), gradient);
  }
}

void GradientSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  const Value& loops = checkpoint.manifest.at("loops");
  loaded_ = {};
  loaded_.window_open = loops.at("window_open").as_bool();
  loaded_.window_scale = std::max<std::int64_t>(1, saved_count(loops, "window_scale"));
  loaded_.accumulate_grad_batches = optional_count(loops, "accumulate_grad_batches");
  // Reduced gradients are the same on all ranks, and are saved once.
  if (!loaded_.window_open) add_gradients(checkpoint, run.module(), 0, loaded_.gradients);
}

void GradientSection::load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) {
  loaded_.window_weight += values.at("window_weight").as_int();
  const Value::List& loss = values.at("window_loss").as_list();
  loaded_.window_loss.sum += loss.at(0).as_double();
  loaded_.window_loss.weight += loss.at(1).as_double();
  loaded_.bad_loss |= values.at("bad_loss").as_bool();
  if (loaded_.window_open) add_gradients(checkpoint, run.module(), rank, loaded_.gradients);
}

void GradientSection::restore(TrainerState& run, Moment moment) {
  if (moment != Moment::kPlace) return;
  if (loaded_.accumulate_grad_batches) run.accumulation.batches = *loaded_.accumulate_grad_batches;
  run.nan.restore(loaded_.bad_loss);
  const bool manual = !run.module().automatic_optimization();
  if (!loaded_.window_open && !manual) return;
  // Gradients are divided by the size of a full window, which may have changed.
  const double factor =
      manual ? 1.0 : static_cast<double>(loaded_.window_scale) / static_cast<double>(run.accumulation.scale());
  set_gradients(run.module(), loaded_.gradients, factor);
  run.accumulation.window = {.open = loaded_.window_open, .weight = loaded_.window_weight};
  run.measures.losses.restart(loaded_.window_loss);
}

}  // namespace levin
