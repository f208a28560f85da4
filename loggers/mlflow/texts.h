#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "levin/core/config/value.h"

namespace levin::mlflow {

/// The name of a metric or parameter as the server takes it: what it does not, such as "$", becomes "_", and no more than 250
/// characters.
std::string name_for_server(std::string name);

/// The longest text of a tag that the server takes.
inline constexpr std::size_t kLongestTag = 8000;
/// What a tag can say of a text: printable, and no longer.
std::string tag_text(const std::string& text);

/// The text, no longer than so many bytes.
std::string cut(std::string text, std::size_t longest);

/// The hyper-parameters, sections inside one another, as parameters: {"model.lr": "0.002"}.
Value parameters_of(const Value& hyperparams);

/// The tags by which MLflow's pages show where a run comes from: the command, the user and, where the working folder is in a
/// clone of Git, the commit.
Value source_tags();

}  // namespace levin::mlflow
