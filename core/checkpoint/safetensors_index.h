#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// Whether a file may be Hugging Face's index of a model in several safetensors files: a JSON map.
bool looks_like_safetensors_index(std::string_view bytes);

/// The names of the tensors that each file has, as an index says. Files lie beside it. Throws IoError for anything else, such
/// as a file elsewhere.
std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text);

}  // namespace levin
