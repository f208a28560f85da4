#pragma once

#include <functional>
#include <string>
#include <vector>

#include "levin/core/config/value.h"

namespace levin {

/// The names and list indices that lead from the root of a document to a node.
using YamlPath = std::vector<std::string>;
/// The comment to write above the node at a path; empty for none. Each of its lines becomes a comment line.
using CommentOf = std::function<std::string(const YamlPath& path)>;

/// The value as a YAML document in block style, ending with a line break. Reading it back gives an equal value, with YAML 1.2
/// readers and with YAML 1.1 ones such as PyYAML: floats keep a point and their exact digits ("1.0e-05"), strings that could be
/// taken for something else ("no", "1_000", "2020-01-01", "") are quoted, and strings that are not valid UTF-8 become
/// `!!binary`. The order of a map's keys is preserved. `comment_of`: comments for readers; null: none.
std::string to_yaml(const Value& value, const CommentOf& comment_of = nullptr);

/// A value without elements as YAML writes it, without the line's end.
std::string scalar_text(const Value& value);

}  // namespace levin
