#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/config/options.h"
#include "levin/core/config/value.h"

namespace levin {

struct RunInfo;

/// The folder that a logger writes to: SAVE_DIR/NAME/VERSION.
struct VersionFolder {
  std::filesystem::path save_dir;
  std::string name;  ///< of the experiment, the folder of its versions; empty: none
  Value version;     ///< null: the next free number; 3: version_3; a text: that very folder; an empty one: NAME itself

  /// From the options of a logger, which have these members; save_dir is the Trainer's default_root_dir by default.
  template <class O>
  static VersionFolder of(const O& options, const std::filesystem::path& default_root_dir) {
    return {options.save_dir.value_or(default_root_dir), options.name, options.version};
  }

  /// Whether a folder of another logger of the run, for the same experiment, may be shared.
  using MayShare = std::function<bool(const std::filesystem::path& folder)>;

  /// The folder for a run, created if missing: that of an earlier attempt of this run; else the one of `version`; else one that
  /// may be shared; else the next free number, which of two runs at the same moment only one gets. Lists files that are written
  /// there from now on (written_files.h). Ranks: 0. Throws IoError; ConfigError if the version's folder is in use.
  std::filesystem::path make(const RunInfo& run, const MayShare& may_share = {}) const;
  /// The existing version folders, the highest number first; with a version, that one. If there is none, version_0, so that a
  /// search without a result can say where it looked.
  std::vector<std::filesystem::path> earlier() const;
  /// The version of the options, or else the folder's name.
  std::string version_of(const std::filesystem::path& folder) const;
  /// The folder in which this logger wrote such a `file` in the run of a checkpoint: that of `checkpoints` or, with several
  /// loggers, the folder of the same name in this logger's experiment.
  std::filesystem::path of_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& file) const;

 private:
  std::filesystem::path experiment() const;
  std::optional<std::filesystem::path> chosen() const;
};

/// Creates a folder and its parents, unless it exists. Throws IoError.
void make_folder(const std::filesystem::path& folder);

namespace detail {
/// What is wrong with a version, such as that it leads out of save_dir; empty: nothing.
std::string version_problem(const Value& version);
std::string name_problem(const std::string& name);
}  // namespace detail

/// Declares save_dir, name and version.
template <class O>
void declare_version_folder(OptionList<O>& options) {
  options.add(&O::save_dir, "Folder under which logs are written; null: the Trainer's default_root_dir");
  options.add(&O::name, "Folder below save_dir that the versions of an experiment share; empty: none");
  options.add(&O::version,
              "Folder of this run: an int N for version_N, a string for that folder ('': none), null for the next free N");
  options.rule({"version"}, [](const O& logger) { return detail::version_problem(logger.version); });
  options.rule({"name"}, [](const O& logger) { return detail::name_problem(logger.name); });
}

}  // namespace levin
