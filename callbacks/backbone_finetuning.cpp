#include "levin/callbacks/backbone_finetuning.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// Calls visit(layer, is_batch_norm) for a module and each below it.
template <class Visit>
void each_layer(torch::nn::Module& module, const Visit& visit) {
  // LibTorch's three classes have no base in common, and SyncBatchNorm is a fourth.
  visit(module, module.children().empty() && module.name().find("BatchNorm") != std::string::npos);
  for (const auto& child : module.children()) each_layer(*child, visit);
}

void set_trained(torch::nn::Module& layer, bool is_batch_norm, bool trained) {
  if (is_batch_norm) layer.train(trained);
  for (const at::Tensor& parameter : layer.parameters(/*recurse=*/false)) {
    if (!trained || parameter.is_floating_point() || parameter.is_complex()) parameter.requires_grad_(trained);
  }
}

/// The group behind the first that has nothing but parameters of this module; null when there is none.
torch::optim::OptimizerParamGroup* group_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  const std::vector<at::Tensor> own = module.parameters();
  auto& groups = optimizer.param_groups();
  const auto found = std::find_if(groups.begin() + 1, groups.end(), [&](const auto& group) {
    return std::ranges::all_of(group.params(), [&](const at::Tensor& parameter) { return is_one_of(parameter, own); });
  });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(BackboneFinetuning, "Freeze a part of the module, and train it from an epoch on");

std::vector<at::Tensor> BaseFinetuning::filter_params(const torch::nn::Module& module, bool train_bn, bool requires_grad) {
  std::vector<at::Tensor> parameters;
  each_layer(const_cast<torch::nn::Module&>(module), [&](const torch::nn::Module& layer, bool is_batch_norm) {
    if (is_batch_norm && !train_bn) return;
    for (const at::Tensor& parameter : layer.parameters(/*recurse=*/false)) {
      if (parameter.requires_grad() == requires_grad && !is_one_of(parameter, parameters)) parameters.push_back(parameter);
    }
  });
  return parameters;
}

void BaseFinetuning::freeze(torch::nn::Module& module, bool train_bn) {
  each_layer(module, [&](torch::nn::Module& layer, bool is_batch_norm) {
    set_trained(layer, is_batch_norm, is_batch_norm && train_bn);
  });
}

void BaseFinetuning::unfreeze_and_add_param_group(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                                  std::optional<double> lr, double initial_denom_lr, bool train_bn) {
  const std::vector<at::Tensor> frozen = filter_params(module, train_bn, /*requires_grad=*/false);
  each_layer(module, [&](torch::nn::Module& layer, bool is_batch_norm) {
    if (!is_batch_norm || train_bn) set_trained(layer, is_batch_norm, true);
  });
  const std::vector<at::Tensor> known = all_parameters(optimizer);
  const auto is_known = [&](const at::Tensor& parameter) { return is_one_of(parameter, known); };
  if (const auto count = std::ranges::count_if(frozen, is_known); count > 0) {
    rank_zero_warn(
        format("{} to unfreeze already belonged to a group of the optimizer, and will train with its rate. Give the "
               "optimizer in configure_optimizers only those that require a gradient.",
               counted(static_cast<std::size_t>(count), "parameter")));
  }
  std::vector<at::Tensor> added = filter_params(module, train_bn);
  std::erase_if(added, is_known);
  if (added.empty()) return;
  const double rate = lr ? *lr : get_lr(optimizer.param_groups().front()) / initial_denom_lr;
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(std::move(added)));
  set_lr(optimizer.param_groups().back(), rate);
}

void BaseFinetuning::setup(Trainer& trainer, Module& module, Stage) {
  if (!trainer.fitting()) return;
  // A module in evaluation mode is put into training mode as a whole when its fit begins.
  if (!module.is_training()) module.train();
  freeze_before_training(module);
}

void BaseFinetuning::on_train_epoch_start(Trainer& trainer, Module& module) {
  for (const auto& optimizer : trainer.optimizers()) finetune_function(module, trainer.current_epoch(), *optimizer);
}

void BackboneFinetuningOptions::declare(OptionList<BackboneFinetuningOptions>& options) {
  using O = BackboneFinetuningOptions;
  options.add(&O::backbone, "The submodule that is frozen at first, by name");
  options.add(&O::unfreeze_backbone_at_epoch, "The first epoch that trains it").min(0);
  options.add(&O::lambda_func, "Factor of its rate in each epoch after that, a number or an expression of epoch");
  options.add(&O::backbone_initial_ratio_lr, "Its first rate, relative to that of the first parameter group")
      .above(0)
      .instead("the rate is multiplied in each epoch, and stays 0; unfreeze_backbone_at_epoch says when it is trained");
  options.add(&O::backbone_initial_lr, "Its first rate; null: by backbone_initial_ratio_lr")
      .above(0)
      .instead("null takes backbone_initial_ratio_lr");
  options.add(&O::should_align, "Never let its rate rise above that of the first parameter group");
  options.add(&O::initial_denom_lr, "Has no effect, as in Lightning").above(0);
  options.add(&O::train_bn, "Train its BatchNorm layers; else they stay unchanged");
  options.add(&O::verbose, "Show both rates in each epoch");
  options.add(&O::rounding, "Decimals of the rates shown").min(0).max(15);
}

BackboneFinetuning::BackboneFinetuning(Options options) : WithOptions("BackboneFinetuning", std::move(options)) {}

Value BackboneFinetuning::state_dict() const { return write_options(state_); }
void BackboneFinetuning::load_state_dict(const Value& state) { detail::read_state(state, state_); }

torch::nn::Module& BackboneFinetuning::backbone_of(const Module& module) const {
  const auto parts = module.named_modules("", /*include_self=*/false);
  if (const auto* const found = parts.find(options_.backbone)) return **found;
  throw ConfigError(format(
      "BackboneFinetuning: the module has no submodule '{}' when its fit begins: register it in the constructor, or name "
      "another with 'backbone': {}.",
      options_.backbone, join(parts.keys())));
}

void BackboneFinetuning::freeze_before_training(Module& module) {
  state_ = {};
  freeze(backbone_of(module), options_.train_bn);
}

void BackboneFinetuning::finetune_function(Module& module, std::int64_t epoch, torch::optim::Optimizer& optimizer) {
  if (epoch < options_.unfreeze_backbone_at_epoch || &optimizer != module.trainer().optimizers().front().get()) return;
  const double current_lr = get_lr(optimizer.param_groups().front());
  torch::nn::Module& backbone = backbone_of(module);
  auto* const group = group_of(backbone, optimizer);
  // A run that resumes within the epoch calls this again, and then has this epoch's rate.
  if (epoch != state_.latest_epoch) {
    if (group == nullptr || !state_.previous_backbone_lr) {
      state_.previous_backbone_lr = options_.backbone_initial_lr.value_or(current_lr * options_.backbone_initial_ratio_lr);
    } else {
      const double next = factor(epoch + 1) * *state_.previous_backbone_lr;
      state_.previous_backbone_lr = options_.should_align ? std::min(next, current_lr) : next;
    }
    state_.latest_epoch = epoch;
  }
  if (group != nullptr) {
    set_lr(*group, *state_.previous_backbone_lr);
  } else if (!filter_params(backbone, options_.train_bn, /*requires_grad=*/false).empty()) {
    unfreeze_and_add_param_group(backbone, optimizer, state_.previous_backbone_lr, options_.initial_denom_lr,
                                 options_.train_bn);
  }
  if (!options_.verbose) return;
  const double scale = std::pow(10.0, static_cast<double>(options_.rounding));
  const auto rounded = [&](double rate) { return float_text(std::round(rate * scale) / scale); };
  rank_zero_info(format("Current lr: {}, Backbone lr: {}", rounded(current_lr), rounded(*state_.previous_backbone_lr)));
}

}  // namespace levin
