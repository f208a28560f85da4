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

/// Which folder a logger writes to: SAVE_DIR/NAME/VERSION.
struct VersionFolder {
  std::filesystem::path save_dir;
  std::string name;  ///< of the experiment, whose versions lie beside one another; empty: none
  Value version;     ///< null: the next free number; 3: version_3; a text: that very folder; an empty one: no folder of its own

  /// Of a logger's options, which have these members; save_dir is the Trainer's default_root_dir by default.
  template <class O>
  static VersionFolder of(const O& options, const std::filesystem::path& default_root_dir) {
    return {options.save_dir.value_or(default_root_dir), options.name, options.version};
  }

  /// May the folder be shared that another logger of the run has for the same experiment?
  using MayShare = std::function<bool(const std::filesystem::path& folder)>;

  /// The folder for a run of rank 0, made where it is not there: that of an earlier attempt of this run; the one that the
  /// version says; one that may be shared; else the next free number, which two runs that ask at one moment do not both get.
  /// What is written there is listed from here on (written_files.h). Throws IoError, and ConfigError where the version's folder
  /// is that of a run that is on.
  std::filesystem::path make(const RunInfo& run, const MayShare& may_share = {}) const;
  /// The version folders that are there, the highest number first; with a version, that one. Where there is none, version_0: so
  /// that a search which finds nothing says where it looked.
  std::vector<std::filesystem::path> earlier() const;
  /// What the options say, or the folder's own name.
  std::string version_of(const std::filesystem::path& folder) const;
  /// Where the logger that wrote such a `file` kept it for the run of this checkpoint: beside `checkpoints`, or, with several
  /// loggers, in the folder of that name of this logger's own experiment.
  std::filesystem::path of_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& file) const;

 private:
  std::filesystem::path experiment() const;
  std::optional<std::filesystem::path> chosen() const;
};

/// Makes a folder and those above it; fine when it exists. Throws IoError.
void make_folder(const std::filesystem::path& folder);

namespace detail {
/// Why the version has no meaning, or leads out of save_dir; empty when nothing is wrong.
std::string version_problem(const Value& version);
std::string name_problem(const std::string& name);
}  // namespace detail

/// Declares save_dir, name and version.
template <class O>
void declare_version_folder(OptionList<O>& options) {
  options.add(&O::save_dir, "Folder under which logs are written; null: the Trainer's default_root_dir");
  options.add(&O::name, "Folder below save_dir that the versions of an experiment share; empty: none");
  options.add(&O::version,
              "Folder of this run: an int N for version_N, a string as it is ('': none of its own), null for the next free N");
  options.rule({"version"}, [](const O& logger) { return detail::version_problem(logger.version); });
  options.rule({"name"}, [](const O& logger) { return detail::name_problem(logger.name); });
}

}  // namespace levin
