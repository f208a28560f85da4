#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "levin/core/options/value.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {

/// A text with blanks behind it, as a cell of a column so wide.
inline std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

/// What follows CLI11's help of `levin fit` and its like: the sections of the YAML, and where to read on.
std::string run_command_footer();

/// Help on a class ("EarlyStopping"), a kind of class ("callbacks"), a section ("trainer") or a key ("trainer.max_epochs").
/// Throws ConfigError ("did you mean …") on any other topic.
std::string topic_help(const std::string& topic);

/// The comments of `--print_config`: the help of each option in `config`, its range and choices.
CommentOf config_comments(const Value& config);

/// JSON Schema (draft 2020-12) of the YAML: every section, and every class that is registered now with its init_args.
Value config_schema();

}  // namespace levin::cli
