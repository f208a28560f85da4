#pragma once

#include <string>
#include <vector>

#include "levin/cli/annotated_yaml.h"
#include "levin/core/options/value.h"

namespace levin::cli {

/// What follows CLI11's help of `levin fit` and its like: the sections of the YAML, and where to read on.
std::string run_command_footer();

/// Help on a class ("EarlyStopping"), a kind of class ("callbacks"), a section ("trainer") or a key ("trainer.max_epochs").
/// Throws ConfigError ("did you mean …") on any other topic.
std::string topic_help(const std::string& topic);

/// The files of the plug-ins that were loaded, a line each; empty when there is none.
std::string plugins_text(const std::vector<std::string>& files);

/// `levin list`: every class of a kind, or of all kinds when it is empty, with its help.
std::string list_text(const std::string& kind);

/// The comments of `--print_config`: the help of each option in `config`, its range and choices.
CommentOf config_comments(const Value& config);

}  // namespace levin::cli
