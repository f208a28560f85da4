#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "levin/cli/config_merge.h"

namespace levin::cli {

/// `--config FILE`.
struct ConfigFile {
  std::string path;
  friend bool operator==(const ConfigFile&, const ConfigFile&) = default;
};
/// What configures a run, in the order of the command line: later ones win.
using ConfigSource = std::variant<ConfigFile, Override>;

/// What `levin inspect` and `levin export` are given.
struct FileCommand {
  std::string file;
  std::string key = {};         ///< which of several dicts of tensors in a file of torch's
  bool as_json = false;         ///< of inspect
  std::string format = {};      ///< of export: safetensors, state_dict or lightning
  std::string output = {};      ///< empty: beside the file
  std::string prefix = {};      ///< only weights with it, without it
  std::string add_prefix = {};  ///< before each
  bool force = false;           ///< of export: replaces a file
};

/// What follows `levin bench`.
struct BenchLine {
  std::string what;  ///< "comm", "ddp"
  std::string csv;   ///< a file; empty: none
  std::int64_t min_bytes = 1024;
  std::int64_t max_bytes = std::int64_t{256} << 20;
  std::int64_t steps = 30;
};

/// The command line, taken apart.
struct CommandLine {
  std::string command;  ///< "fit", "validate", "test", "predict", "list", "schema", "new", "inspect", "export", "bench"; empty
                        ///< when `output` is all there is to do
  std::vector<ConfigSource> sources;
  std::vector<std::string> plugins;
  bool print_config = false;
  std::string project;                    ///< of `levin new`: the folder to make
  std::string template_name;              ///< what it is made of
  FileCommand file;                       ///< of `levin inspect` and `levin export`
  BenchLine bench;                        ///< of `levin bench`
  std::string list_kind;                  ///< of `levin list callbacks`; empty for all
  std::optional<std::string> help_topic;  ///< of `--help EarlyStopping` or `--model.help=Digits`: a class, a kind or a key
  std::vector<std::string> words;         ///< all of it as it was typed, the program first; set by run()
  std::string output;                     ///< --help and --version: what to print, and be done
};

/// Takes the command line apart. `arguments` is argv without the program. Throws ConfigError on a wrong one.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace levin::cli
