#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/options/common_choices.h"
#include "levin/core/options/duration.h"
#include "levin/core/options/options.h"

namespace levin {

/// Whether `last.ckpt` is kept: not (false), as a file of its own (true), or as a symbolic link to the newest file (kLink;
/// "link" in YAML).
class SaveLast {
 public:
  enum Link { kLink };
  SaveLast(bool enabled = false) : enabled_(enabled) {}
  SaveLast(Link) : enabled_(true), link_(true) {}
  bool enabled() const { return enabled_; }
  bool link() const { return link_; }

 private:
  bool enabled_ = false;
  bool link_ = false;
};

template <>
struct OptionType<SaveLast> {
  static SaveLast read(const Value& value);
  static Value write(const SaveLast& save_last);
  static std::string name() { return "bool, \"link\" or null"; }
  static Value schema();
};

/// Lightning's arguments and defaults.
struct ModelCheckpointOptions {
  /// Default: `checkpoints` in the first logger's folder, or in default_root_dir when there is no logger.
  std::optional<std::filesystem::path> dirpath = std::nullopt;
  std::optional<std::string> filename = std::nullopt;  ///< see CheckpointName; default "{epoch}-{step}"
  std::optional<std::string> monitor = std::nullopt;
  bool verbose = false;
  SaveLast save_last = false;
  std::int64_t save_top_k = 1;  ///< -1: all, 0: none
  /// Rank 0 also saves when training ends with an error; nothing is asked of other ranks then.
  bool save_on_exception = false;
  bool save_weights_only = false;
  MonitorMode mode = MonitorMode::kMin;
  bool auto_insert_metric_name = true;
  // At most one of these three; none: every epoch.
  std::optional<std::int64_t> every_n_train_steps = std::nullopt;  ///< optimizer steps
  std::optional<Duration> train_time_interval = std::nullopt;      ///< by rank 0's clock
  std::optional<std::int64_t> every_n_epochs = std::nullopt;
  /// true: save when the training epoch ends; false: when validation ends; unset: the former when every epoch validates once.
  std::optional<bool> save_on_train_epoch_end = std::nullopt;
  bool enable_version_counter = true;  ///< false: a file of the same name is replaced

  static void declare(OptionList<ModelCheckpointOptions>& options);
};

}  // namespace levin
