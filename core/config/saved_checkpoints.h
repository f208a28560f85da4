#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/config/value.h"

namespace levin {

/// The files that a callback which saves checkpoints has written, as its state names them: Callback::state_dict(), and the
/// manifest of each checkpoint, which another process may read. `ckpt_path: best`, messages and tables of runs know them from
/// here. The keys are those of Lightning's ModelCheckpoint, and `saved_as`.
struct LEVIN_API SavedCheckpoints {
  std::string monitor;          ///< empty: none
  std::string best_model_path;  ///< empty: nothing was saved yet; so are the next two
  std::string last_model_path;
  std::string saved_as;  ///< written last: in a checkpoint, the file that has this state
  std::optional<double> best_model_score;
  std::map<std::string, double> best_k_models;  ///< scores by file

  /// Values of other types are ignored: the state may be another program's.
  static SavedCheckpoints read(const Value& state);
  /// Those of all callbacks in a checkpoint's manifest, in their order.
  static std::vector<SavedCheckpoints> read_all(const Value& manifest);
  /// "val_loss 0.123"; empty without a monitor or a score.
  std::string score_text(std::optional<double> score) const;
};

}  // namespace levin
