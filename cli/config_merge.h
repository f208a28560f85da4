#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/options/value.h"

namespace levin::cli {

/// `base` with everything that `overlay` says. Maps merge key by key, other values and lists replace what was there. Where a
/// class is named (`class_path`, or its name alone) that differs from the one in `base`, only those init_args stay that the new
/// class has too, as in LightningCLI. A null section over a map changes nothing.
Value merged(Value base, const Value& overlay);

/// Reads a configuration file for one command, with what it leads to:
/// - `include: base.yaml`, or a list of files: read first, so that what stands in the file itself wins;
/// - `model: model.yaml`: a section that is the name of a YAML file is what that file holds;
/// - `fit:`, `validate:`, `test:`, `predict:`: sections for that command alone, which win over the others of the file. Those of
///   other commands are left out.
///
/// Files are looked for beside the file that names them, then from the working folder. Throws ConfigError, also when files
/// include one another in a circle.
Value read_config_file(const std::filesystem::path& file, const std::string& command);

/// True for a map with class_path or init_args.
bool names_class(const Value& value);
/// A class that is named alone, as a map with its class_path.
Value class_only(const Value& name);
/// True for a part of a key that is about the specification of a class itself, as against its init_args.
bool is_direct_key(const std::vector<std::string>& key, const std::string& part);

/// One `--key=value` of the command line, or a variable of the environment.
struct Override {
  std::string key;            ///< "trainer.callbacks.patience"
  std::string text;           ///< read as YAML
  bool append = false;        ///< `--trainer.callbacks+=EarlyStopping`
  std::string variable = {};  ///< the variable that it came from; empty: the command line
  /// "command line: --trainer.callbacks+", "environment: LEVIN_TRAINER__MAX_EPOCHS"; a long key is cut.
  std::string name() const;
  /// As it was written: "--trainer.max_epochs=5", "LEVIN_TRAINER__MAX_EPOCHS=5".
  std::string written() const;
  friend bool operator==(const Override&, const Override&) = default;
};

/// Puts an override into a configuration. A key leads through maps; through a class to its init_args (or class_path and
/// init_args when it names them); through a list to the element of that number, else to its last element.
/// Throws ConfigError when the key leads nowhere, or deeper than ConfigSize permits.
void apply_override(Value& config, const Override& given);

}  // namespace levin::cli
