#include "levin/core/state/kept_section.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/checkpoint/tensor_range.h"
#include "levin/core/console/console.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {
/// "kept.1.replay."
std::string prefix_of(int rank, const std::string& name) { return format("kept.{}.{}.", rank, name); }
}  // namespace

void KeptSection::add(const std::string& name, KeptFunctions functions) {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw MisuseError(format("Session::keep(): '{}' is no name: it needs one without a dot.", name));
  }
  if (!kept_.emplace(name, std::move(functions)).second) {
    throw MisuseError(format("Session::keep(): '{}' is kept already. Give each a name of its own.", name));
  }
}

void KeptSection::save_own(TrainerState& run, RankState& state) {
  if (kept_.empty()) return;
  Value& all = state.manifest["kept"] = Value::Map{};
  for (const auto& [name, functions] : kept_) {
    KeptState kept = functions.save();
    all[name] = std::move(kept.values);
    for (const auto& [key, tensor] : kept.tensors) {
      save_tensor(state, prefix_of(run.strategy().rank(), name) + key, tensor);
    }
  }
}

void KeptSection::load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) {
  const Value* const all = values.find("kept");
  if (rank != run.strategy().rank()) {
    if (all != nullptr) {
      Console::instance().warn(format("What rank {} of the saved run had kept is left out: this run has fewer ranks.", rank));
    }
    return;
  }
  for (const auto& [name, functions] : kept_) {
    const Value* const found = all == nullptr ? nullptr : all->find(name);
    if (found == nullptr) {
      Console::instance().warn(format("The checkpoint has nothing that was kept as '{}': it stays as it is.", name));
      continue;
    }
    KeptState kept{.values = *found};
    const std::string prefix = prefix_of(rank, name);
    for (const auto& [key, tensor] : tensors_with_prefix(checkpoint, prefix)) kept.tensors[key.substr(prefix.size())] = tensor;
    functions.load(kept);
  }
}

}  // namespace levin
