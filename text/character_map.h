#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/text/json_node.h"
#include "levin/text/unicode/unicode_library.h"

namespace levin::detail {

/// What SentencePiece replaces characters by, as T5's and XLM-RoBERTa's files have it: the normalizer `Precompiled`. A double
/// array of bytes, as Darts writes it, leads to places in a text.
class CharacterMap {
 public:
  /// `precompiled_charsmap` of the node, in base64. Throws IoError for what is none.
  explicit CharacterMap(const JsonNode& node);
  /// Replaces what the map has: whole characters as users see them, of up to 5 bytes, else code points.
  std::string operator()(std::string_view text, const UnicodeLibrary& unicode) const;

 private:
  void append(std::string& result, std::string_view seen) const;
  /// What stands for the first piece of the map that the text begins with.
  std::optional<std::string_view> replacement_of(std::string_view text) const;
  std::optional<std::string_view> text_at(std::uint32_t place) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  ///< each ends with a byte 0
};

}  // namespace levin::detail
