#pragma once

#include <string>

#include "levin/cli/config/class_catalog.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// What `levin list` prints of a kind of classes: its name, and a line for each class.
std::string kind_help(const ClassKind& kind);

/// What follows CLI11's help of `levin fit` and its like: the sections of the YAML, and where to read on.
std::string run_command_footer();

/// Help on a class ("EarlyStopping"), a kind of class ("callbacks"), a section ("trainer") or a key ("trainer.max_epochs").
/// Throws ConfigError ("did you mean …") on any other topic.
std::string topic_help(const std::string& topic);

/// The comments of `--print_config`: the help of each option in `config`, its range and choices.
CommentOf config_comments(const Value& config);

}  // namespace levin::cli
