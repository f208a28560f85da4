#include "levin/core/checkpoint/safetensors_index.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/value_json.h"

namespace levin {

bool looks_like_safetensors_index(std::string_view bytes) {
  constexpr std::size_t kLengthBytes = 8;  // of a safetensors file's header, of which some are always zero
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first < kLengthBytes && bytes[first] == '{' && bytes.substr(0, kLengthBytes).find('\0') == std::string_view::npos;
}

std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text) {
  const Value json = parse_json(text);
  const Value* const places = json.find("weight_map");
  if (places == nullptr || !places->is_map())
    throw IoError("it is JSON, but no index of safetensors files: it has no weight_map");
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [name, file] : places->as_map()) {
    const bool is_plain = file.is_string() && !file.as_string().empty() && file.as_string().find('/') == std::string::npos;
    if (!is_plain) throw IoError(format("its weight_map has no file beside it for {}", quoted_text(name)));
    files[file.as_string()].push_back(name);
  }
  return files;
}

}  // namespace levin
