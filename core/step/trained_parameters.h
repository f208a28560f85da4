#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "levin/core/run/run_setup.h"

namespace levin {

/// The parameters of an optimizer, by group.
using ParameterGroups = std::vector<std::vector<at::Tensor>>;
ParameterGroups groups_of(const torch::optim::Optimizer& optimizer);
/// The same tensors, not equal ones.
bool are_same(const ParameterGroups& one, const ParameterGroups& other);

/// The parameters that training works with, at one moment. Holds the tensors, so that no later one has the same address.
struct ParameterSet {
  std::vector<at::Tensor> parameters;  ///< of the module and those below it, parents first
  std::vector<bool> trained;           ///< by parameter: it requires a gradient
  std::vector<ParameterGroups> optimizers;

  bool operator==(const ParameterSet& other) const {
    return are_same({parameters}, {other.parameters}) && trained == other.trained &&
           std::ranges::equal(optimizers, other.optimizers, are_same);
  }
};

/// Which parameters the ranks have agreed on; finds those that hooks freeze, unfreeze, add, replace or give to an optimizer.
class TrainedParameters {
 public:
  TrainedParameters(const RunSetup& setup, const RunParts& parts) : setup_(setup), parts_(parts) {}

  /// The strategy has set the module up with its current parameters.
  void remember_parameters() { latest_ = agreed_ = std::make_shared<const ParameterSet>(taken()); }
  /// The ranks have compared their current optimizers.
  void remember_optimizers();

  /// The current parameters; the same object as before when nothing has changed.
  std::shared_ptr<const ParameterSet> now();
  /// True when this rank's parameters are not those that the ranks agreed on.
  bool changed() { return now() != agreed_; }
  /// The parameters of the last agreement.
  const std::shared_ptr<const ParameterSet>& agreed() const { return agreed_; }
  /// Ranks: all. The strategy and all ranks continue with the current parameters. `after_reduction`: gradients were reduced
  /// without new parameters, and must be complete before the optimizer steps; otherwise existing gradients wait for more
  /// batches. Throws DesyncError on every rank, naming the first difference.
  void agree(bool after_reduction);

  /// Module::toggle_optimizer(). It does not change parameters: one that only it excludes from gradients counts as trained.
  void toggle(std::size_t optimizer);
  /// Does nothing when no optimizer is toggled.
  void untoggle();
  std::optional<std::size_t> toggled() const { return toggled_; }

 private:
  /// A parameter that requires no gradient while an optimizer is toggled.
  struct ToggledOff {
    at::Tensor parameter;
    bool had_gradient = false;
  };
  bool is_trained(const at::Tensor& parameter) const {
    return parameter.requires_grad() || (!toggled_off_.empty() && toggled_off_.contains(parameter.unsafeGetTensorImpl()));
  }

  ParameterSet taken() const;

  const RunSetup& setup_;
  const RunParts& parts_;
  std::shared_ptr<const ParameterSet> latest_;
  std::shared_ptr<const ParameterSet> agreed_;
  std::optional<std::size_t> toggled_;
  std::unordered_map<const at::TensorImpl*, ToggledOff> toggled_off_;
};

/// The mode, training or evaluation, of a module and of each below it at construction. The module outlives this.
class ModuleModes {
 public:
  explicit ModuleModes(torch::nn::Module& module);
  void restore() const;
  /// The names of modules in evaluation mode; that of the module itself is empty.
  std::vector<std::string> in_evaluation() const;

 private:
  void add_parts_of(const torch::nn::Module& module);

  torch::nn::Module& module_;
  bool trains_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> parts_;  ///< parents before children
};

/// Sets the modules of these names to evaluation mode, all others to training mode.
void set_modes(torch::nn::Module& module, const std::set<std::string>& in_evaluation);

}  // namespace levin
