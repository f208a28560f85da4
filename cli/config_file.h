#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/cli/command_line.h"
#include "levin/cli/run_config.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// Reads the files and overrides of a command line, loads the plug-ins that it names, and checks all. Throws ConfigError.
RunConfig load_config(const CommandLine& line);

/// Loads the plug-ins that a command line and its files name. Gives a text of these, a line each. Throws ConfigError.
std::string load_plugins_of(const CommandLine& line);

/// What a command line and its files say, of which some may be wrong: for suggestions. Null where it cannot be read.
Value config_as_far_as_known(const CommandLine& line);

/// Throws ConfigError unless a model is given, as a run needs.
void require_model(const CommandLine& line, const RunConfig& config);

/// A line for each option that the arguments of `model:` and `data:` have both, with different values, of which at least one
/// was given: such as a batch_size or num_classes that was changed in one place. Each names both values and their places.
std::vector<std::string> different_shared_options(const Value& model, const Value& data);

/// Saves the complete configuration of a run as `config.yaml` in its folder, and gives the file. An equal one is left as it is;
/// another one, of an earlier run in the same folder, is kept as `config_1.yaml`, `config_2.yaml`, … Throws IoError when it
/// cannot be written. Ranks: 0.
std::filesystem::path save_config(const Value& config, const std::filesystem::path& folder);

/// The same as `--print_config` prints it: with a comment above each option.
std::string printed_config(const Value& config);

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

/// Puts an override into a configuration. A key leads through maps; through a class to its init_args (or class_path and
/// init_args when it names them); through a list to the element of that number, else to its last element.
/// Throws ConfigError when the key leads nowhere, or deeper than ConfigSize permits.
void apply_override(Value& config, const Override& given);

/// The configuration with `${key}` in place of each option of a class that is not given and is linked to that key
/// (OptionList::Builder::linked_to), where the key leads somewhere.
Value with_links(const Value& config);

/// `value` with every `${…}` in its texts replaced:
/// - `${data.batch_size}`: the value at that key of `config`, given or the option's default; a whole list or map, too, where
///   the text is nothing else;
/// - `${env:NAME}`, `${env:NAME,default}` (or `oc.env:`, as in OmegaConf): an environment variable, read as YAML.
///
/// Within a longer text the value's text is put in. `\${` stands for the characters `${`. Throws ConfigError at the text's
/// place for a key that leads nowhere, a variable that is not set and has no default, keys that refer to one another in a
/// circle, and for what unfolds to more than ConfigSize permits. With `errors` each is added there, and null has its place.
Value interpolated(const Value& value, const Value& config, ErrorCollector* errors = nullptr);

/// `value` with a backslash before each `${` in its texts, so that interpolated() gives back `value`: for what is written.
Value escaped(Value value);

}  // namespace levin::cli
