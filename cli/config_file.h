#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "levin/core/options/value.h"

namespace levin::cli {

/// A value without elements as YAML writes it, without the line's end.
std::string scalar_text(const Value& value);

/// The names and list indices that lead from the root of a document to a node.
using YamlPath = std::vector<std::string>;
/// The comment to write above the node at a path; empty for none. Each of its lines becomes a comment line.
using CommentOf = std::function<std::string(const YamlPath& path)>;

/// The value as YAML, as to_yaml writes it, with comments for a human reader.
std::string annotated_yaml(const Value& value, const CommentOf& comment_of);

/// Saves the complete configuration of a run as `config.yaml` in its folder, and gives the file. An equal one is left as it is;
/// another one, of an earlier run in the same folder, is kept as `config_1.yaml`, `config_2.yaml`, … Throws IoError when it
/// cannot be written. Ranks: 0.
std::filesystem::path save_config(const Value& config, const std::filesystem::path& folder);

/// The same as `--print_config` prints it: with a comment above each option.
std::string printed_config(const Value& config);

}  // namespace levin::cli
