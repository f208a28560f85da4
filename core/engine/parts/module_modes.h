#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace levin {

/// The mode, training or evaluation, of a module and of each below it.
class ModuleModes {
 public:
  /// As they are now. `module` outlives this.
  explicit ModuleModes(torch::nn::Module& module);
  /// The same, and the same object as `before` where nothing has changed: then it costs a comparison for each part.
  static std::shared_ptr<const ModuleModes> now(torch::nn::Module& module, std::shared_ptr<const ModuleModes> before);
  void restore() const;
  /// The names of those in evaluation mode; that of the module itself is empty.
  std::vector<std::string> in_evaluation() const;

 private:
  struct Mode {
    std::string name;
    torch::nn::Module* module;
    bool training;
  };
  void add(const std::string& name, torch::nn::Module& module);
  /// From the entry at `index` on, which becomes that behind the module's last part.
  bool are_of(const torch::nn::Module& module, std::size_t& index) const;

  std::vector<Mode> modes_;  ///< parents before children
};

/// Those of these names are in evaluation mode, all others in training mode.
void set_modes(torch::nn::Module& module, const std::set<std::string>& in_evaluation);

}  // namespace levin
