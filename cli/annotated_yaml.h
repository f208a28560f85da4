#pragma once

#include <functional>
#include <string>
#include <vector>

#include "levin/core/options/value.h"

namespace levin::cli {

/// The names and list indices that lead from the root of a document to a node.
using YamlPath = std::vector<std::string>;
/// The comment to write above the node at a path; empty for none. Each of its lines becomes a comment line.
using CommentOf = std::function<std::string(const YamlPath& path)>;

/// The value as YAML, as to_yaml writes it, with comments for a human reader.
std::string annotated_yaml(const Value& value, const CommentOf& comment_of);

}  // namespace levin::cli
