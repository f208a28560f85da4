#include "levin/callbacks/model_pruning.h"

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

bool is_structured(PruningFunction function) {
  return function == PruningFunction::kLnStructured || function == PruningFunction::kRandomStructured;
}
bool is_random(PruningFunction function) {
  return function == PruningFunction::kRandomUnstructured || function == PruningFunction::kRandomStructured;
}

std::int64_t count_of(const Limit& amount, std::int64_t left) {
  // Halves go to the even number, as in Python.
  if (amount.is_share()) return static_cast<std::int64_t>(std::nearbyint(amount.share() * static_cast<double>(left)));
  if (amount.batches() <= left) return amount.batches();
  throw MisuseError(format("ModelPruning: amount is {}, but only {} are left to prune: give a smaller one, or a share.",
                           amount.batches(), left));
}

/// The same on all ranks.
at::Tensor drawn(Trainer& trainer, at::IntArrayRef sizes) { return at::rand(sizes, trainer.shared_generator()); }

std::string share_text(std::int64_t part, std::int64_t whole) {
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
  return format("{}/{} ({}%)", part, whole, float_text(std::round(percent * 100.0) / 100.0));
}

std::string saved_name(const std::string& parameter, const char* what) { return "pruning." + parameter + "." + what; }

}  // namespace

LEVIN_REGISTER_CALLBACK(ModelPruning, "Set weights to zero after each epoch, where they stay");

void ModelPruningOptions::declare(OptionList<ModelPruningOptions>& options) {
  using O = ModelPruningOptions;
  options.add(&O::pruning_fn, "What is pruned: the smallest weights or any, single ones or channels").required();
  options.add(&O::parameters_to_prune, "Names of parameters; empty: those of all layers with names in parameter_names");
  options.add(&O::parameter_names, "What the parameters of layers are called");
  options.add(&O::use_global_unstructured, "Choose among all parameters together, not in each by itself");
  options.add(&O::amount, "What is pruned of the rest: a share, such as 0.5, or a number of weights or channels");
  options.add(&O::apply_pruning, "Prune at all");
  options.add(&O::make_pruning_permanent, "Only true: weights themselves are pruned");
  options.add(&O::use_lottery_ticket_hypothesis, "Let the rest go back to the weights that training began with");
  options.add(&O::resample_parameters, "Draw the rest again instead");
  options.add(&O::pruning_dim, "Dimension of channels; -1 is the last");
  options.add(&O::pruning_norm, "Norm by which ln_structured compares channels");
  options.add(&O::verbose, "1: report how much is pruned; 2: of each parameter, too").min(0).max(2);
  options.add(&O::prune_on_train_epoch_end, "Prune when a training epoch ends; else when a validation does");
  options.rule({"make_pruning_permanent", "pruning_fn", "use_global_unstructured", "pruning_dim"}, [](const O& o) {
    if (!o.make_pruning_permanent) return "make_pruning_permanent has to be true: pruned weights are not stored";
    if (!is_structured(o.pruning_fn)) return "";
    if (o.use_global_unstructured) return "channels are pruned in each parameter: set use_global_unstructured to false";
    if (!o.pruning_dim) return "to prune channels, give pruning_dim";
    return is_random(o.pruning_fn) || o.pruning_norm ? "" : "ln_structured needs pruning_norm, such as 2";
  });
}

ModelPruning::ModelPruning(Options options) : WithOptions("ModelPruning", std::move(options)) {}

void ModelPruning::setup(Trainer& trainer, Module&, Stage) {
  if (!trainer.fitting()) return;
  targets_.clear();
  has_pruned_ = false;
}

void ModelPruning::find_targets(const Module& module) {
  const auto parameters = module.named_parameters();
  std::vector<std::string> names = options_.parameters_to_prune;
  for (const std::string& wanted : options_.parameter_names) {
    for (const std::string& name : parameters.keys()) {
      if (options_.parameters_to_prune.empty() && name.ends_with("." + wanted)) names.push_back(name);
    }
  }
  if (names.empty()) {
    throw ConfigError(
        format("ModelPruning: no layer of the module has a parameter called {}: give parameter_names or "
               "parameters_to_prune. It has: {}.",
               join(options_.parameter_names, " or "), join(parameters.keys())));
  }
  for (const std::string& name : names) {
    const at::Tensor* const parameter = parameters.find(name);
    if (parameter == nullptr) {
      throw ConfigError(format("ModelPruning: parameters_to_prune: the module has no parameter '{}'. It has: {}.", name,
                               join(parameters.keys())));
    }
    const auto is_it = [&](const Target& target) { return target.parameter.is_same(*parameter); };
    if (std::ranges::any_of(targets_, is_it)) continue;  // a parameter with two names
    const at::Tensor pruned = at::zeros_like(*parameter, at::TensorOptions(at::kBool).requires_grad(false));
    targets_.push_back({name, *parameter, pruned, {}});
    if (options_.use_lottery_ticket_hypothesis) targets_.back().initial = parameter->detach().clone();
  }
}

void ModelPruning::on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) {
  if (!trainer.fitting()) return;
  const at::NoGradGuard no_grad;
  find_targets(module);
  for (Target& target : targets_) {
    const auto restore = [&](at::Tensor& own, const char* what) {
      const auto saved = checkpoint.tensors.find(saved_name(target.name, what));
      if (saved == checkpoint.tensors.end() || !own.defined()) return;
      own.copy_(saved->second);
      has_pruned_ = true;
    };
    restore(target.pruned, "pruned");
    restore(target.initial, "initial");
  }
}

void ModelPruning::on_fit_start(Trainer&, Module& module) {
  if (targets_.empty()) find_targets(module);
  for (Target& target : targets_) {
    target.pruned = target.pruned.to(target.parameter.device());
    if (target.initial.defined()) target.initial = target.initial.to(target.parameter.device());
  }
}

void ModelPruning::on_save_checkpoint(Trainer&, Module&, Checkpoint& checkpoint) {
  for (const Target& target : targets_) {
    // Another ModelPruning may have written what it has pruned of this one.
    const auto [saved, is_first] = checkpoint.tensors.emplace(saved_name(target.name, "pruned"), target.pruned);
    if (!is_first) saved->second = saved->second.logical_or(target.pruned);
    if (target.initial.defined()) checkpoint.tensors[saved_name(target.name, "initial")] = target.initial;
  }
}

void ModelPruning::on_before_optimizer_step(Trainer&, Module&, torch::optim::Optimizer&) {
  if (!has_pruned_) return;
  for (Target& target : targets_) {
    at::Tensor& gradient = target.parameter.mutable_grad();
    if (gradient.defined() && !gradient.is_sparse()) gradient.masked_fill_(target.pruned, 0);
  }
}

void ModelPruning::on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t) { apply(); }

void ModelPruning::on_train_epoch_end(Trainer& trainer, Module& module) {
  if (options_.prune_on_train_epoch_end) prune(trainer, module);
}

void ModelPruning::on_validation_end(Trainer& trainer, Module& module) {
  if (trainer.fitting() && !detail::before_training(trainer) && !options_.prune_on_train_epoch_end) prune(trainer, module);
}

void ModelPruning::on_train_end(Trainer& trainer, Module&) {
  if (!trainer.epoch_is_unfinished() || has_pruned_ || !options_.apply_pruning) return;
  rank_zero_warn(
      "ModelPruning: nothing is pruned, as training ended inside of an epoch, and weights are pruned after whole ones. Let "
      "max_steps or max_time leave time for one.");
}

void ModelPruning::take_in_others(const Trainer& trainer) {
  for (const ModelPruning* const other : trainer.callbacks_of<ModelPruning>()) {
    if (other == this) continue;
    for (Target& target : targets_) {
      const auto is_it = [&](const Target& one) { return one.parameter.is_same(target.parameter); };
      const auto same = std::ranges::find_if(other->targets_, is_it);
      if (same != other->targets_.end()) target.pruned = target.pruned.logical_or(same->pruned);
    }
  }
}

void ModelPruning::prune(Trainer& trainer, const Module& module) {
  if (trainer.epoch_is_unfinished()) return;
  const std::int64_t epoch = trainer.current_epoch();
  const Limit amount = options_.apply_pruning && prunes_in(epoch) ? this->amount(epoch) : Limit(0);
  if (amount == Limit(0) || amount == Limit(0.0)) return;
  const at::NoGradGuard no_grad;
  take_in_others(trainer);
  const std::string before = options_.verbose > 0 ? pruned_text() : "";
  if (options_.use_global_unstructured) {
    prune_weights(trainer, amount, targets_);
  } else {
    for (Target& target : targets_) {
      is_structured(options_.pruning_fn) ? prune_channels(trainer, amount, target)
                                         : prune_weights(trainer, amount, {&target, 1});
    }
  }
  has_pruned_ = true;
  if (options_.use_lottery_ticket_hypothesis && goes_back_in(epoch)) go_back(trainer, module);
  apply();
  if (options_.verbose > 0)
    rank_zero_info(format("Applied {}. Pruned: {} -> {}", choice_name(options_.pruning_fn), before, pruned_text()));
}

void ModelPruning::prune_weights(Trainer& trainer, const Limit& amount, std::span<Target> together) {
  std::vector<at::Tensor> weights, pruned;
  for (const Target& target : together) {
    weights.push_back(target.parameter.flatten());
    pruned.push_back(target.pruned.flatten());
  }
  const at::Tensor all = at::cat(pruned);
  const at::Tensor left = all.logical_not().nonzero().squeeze(1);
  const at::Tensor sizes = is_random(options_.pruning_fn) ? drawn(trainer, {left.numel()}).to(left.device())
                                                          : at::cat(weights).index_select(0, left).abs();
  const at::Tensor smallest = std::get<1>(sizes.topk(count_of(amount, left.numel()), 0, /*largest=*/false));
  all.index_fill_(0, left.index_select(0, smallest), true);
  std::int64_t begin = 0;
  for (Target& target : together) {
    const std::int64_t count = target.pruned.numel();
    target.pruned = all.narrow(0, begin, count).view(target.pruned.sizes()).clone();
    begin += count;
  }
}

void ModelPruning::prune_channels(Trainer& trainer, const Limit& amount, Target& target) {
  const std::int64_t dim = *options_.pruning_dim;
  const std::int64_t dims = target.parameter.dim();
  if (dims < 2 || dim < -dims || dim >= dims) {
    throw MisuseError(
        format("ModelPruning: {} of the shape {} has no channels along dimension {} (pruning_dim): leave it out of "
               "parameters_to_prune, or its kind out of parameter_names.",
               target.name, c10::str(target.parameter.sizes()), dim));
  }
  const at::Tensor pruned = target.pruned.movedim(dim, 0);
  const at::Tensor left = pruned.flatten(1).all(1).logical_not().nonzero().squeeze(1);
  const at::Tensor channels = target.parameter.movedim(dim, 0).flatten(1).index_select(0, left);
  const at::Tensor sizes = is_random(options_.pruning_fn)
                               ? drawn(trainer, {left.numel()}).to(left.device())
                               : at::linalg_vector_norm(channels, *options_.pruning_norm, at::IntArrayRef({1}));
  const std::int64_t stay = left.numel() - count_of(amount, left.numel());
  const at::Tensor goes = at::ones_like(left, at::kBool).index_fill_(0, std::get<1>(sizes.topk(stay)), false);
  pruned.index_fill_(0, left.masked_select(goes), true);
}

void ModelPruning::go_back(Trainer& trainer, const Module& module) {
  const auto parameters = module.named_parameters();
  for (Target& target : targets_) {
    const at::Tensor* const weight = parameters.find(target.name.substr(0, target.name.rfind('.') + 1) + "weight");
    target.parameter.copy_(target.initial);
    if (!options_.resample_parameters || weight == nullptr || weight->dim() < 2) continue;
    // As linear layers and convolutions begin.
    const std::int64_t inputs = weight->numel() / weight->size(0);
    target.parameter.copy_((drawn(trainer, target.parameter.sizes()) * 2 - 1) / std::sqrt(static_cast<double>(inputs)));
  }
}

void ModelPruning::apply() {
  if (!has_pruned_) return;
  const at::NoGradGuard no_grad;
  for (Target& target : targets_) target.parameter.masked_fill_(target.pruned, 0);
}

std::string ModelPruning::pruned_text() const {
  std::int64_t pruned = 0, all = 0;
  std::string each;
  for (const Target& target : targets_) {
    const auto count = target.pruned.sum().item<std::int64_t>();
    each += format(" {} {}", target.name, share_text(count, target.pruned.numel()));
    pruned += count;
    all += target.pruned.numel();
  }
  return share_text(pruned, all) + (options_.verbose > 1 ? each : "");
}

}  // namespace levin
