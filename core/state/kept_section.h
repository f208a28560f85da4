#pragma once

#include <functional>
#include <map>
#include <string>

#include "levin/core/session.h"
#include "levin/core/state/section.h"

namespace levin {

/// What the caller of a Session keeps in its checkpoints, for each rank. It is restored when it is read: no hook changes it.
///
///     kept.R.<name>.<tensor>    tensors of rank R
///     ranks: R: kept            by name: values
class KeptSection final : public Section {
 public:
  KeptSection() : Section("kept by the session's caller", {"kept."}) {}

  void save_own(TrainerState& run, RankState& state) override;
  void load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) override;

  /// Throws MisuseError for a name that is used.
  void add(const std::string& name, KeptFunctions functions);

 private:
  std::map<std::string, KeptFunctions> kept_;
};

}  // namespace levin
