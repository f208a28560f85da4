#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "levin/core/config/value.h"

namespace levin::mlflow {

/// The name of a metric or parameter for the server: a character that it refuses, such as "$", becomes "_", and more than 250
/// are cut off.
std::string name_for_server(std::string name);

/// The longest text of a tag that the server takes.
inline constexpr std::size_t kLongestTag = 8000;
/// The text of a tag: printable, without secrets, and cut at that length.
std::string tag_text(const std::string& text);

/// The text, cut at so many bytes.
std::string cut(std::string text, std::size_t longest);

/// Nested hyper-parameters as flat parameters: {"model.lr": "0.002"}.
Value parameters_of(const Value& hyperparams);

/// The tags by which MLflow's pages show the source of a run: the command, the user and, in a clone of Git, the commit.
Value source_tags();

}  // namespace levin::mlflow
