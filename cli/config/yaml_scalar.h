#pragma once

#include <string>

#include "levin/core/base/error.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// What a scalar of a YAML file means, by its tag as yaml-cpp gives it: "?" for a plain one, "!" for a quoted one, or the
/// tag's own name. Throws ConfigError with the mark on an unknown tag, and on a text that does not fit its tag.
Value read_scalar(const Mark& mark, const std::string& tag, const std::string& text);

/// The text of a key. Keys are texts, whatever they look like: 5 and !!int 5 are "5". Only !!binary stands for other bytes
/// than those written.
std::string key_text(const Mark& mark, const std::string& tag, const std::string& text);

/// Throws ConfigError for a tag that YAML's core schema lacks.
[[noreturn]] void throw_unknown_tag(const Mark& mark, const std::string& tag);

}  // namespace levin::cli
