#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "levin/core/config/value.h"

namespace levin {

/// The deepest nesting of lists and maps that is written or read.
inline constexpr std::size_t kMaxJsonDepth = 200;

/// The most values, lists and maps included, that are written or read: each takes some 100 bytes, but may be 2 bytes of text.
inline constexpr std::size_t kMaxJsonValues = 2'000'000;

/// What a text may hold.
struct JsonLimits {
  std::size_t depth = kMaxJsonDepth;
  std::size_t list_size = kMaxJsonValues;  ///< elements of one list
};

/// Writes a tree of values as strict JSON, such that parse_json() gives an equal tree: integers and floats remain distinct, a
/// float has every bit of its value, and what JSON lacks is written as a map with one key: {"$float": "nan"}, "inf" or "-inf",
/// and {"$hex": "…"} for a string that is not UTF-8. A user's key that begins with '$' gets a second one in front.
/// Throws IoError when the tree is deeper than kMaxJsonDepth or has more than kMaxJsonValues.
std::string to_json(const Value& value);

/// Writes it indented, for other programs, in plain JSON: values that JSON lacks become null or are replaced.
std::string plain_json(const Value& value);

/// Reads what to_json() wrote, or any other JSON. Throws IoError on text that is not JSON, a key that occurs twice in a map, an
/// integer of more than 64 bits, an unknown '$' form, more than kMaxJsonValues, or what is beyond `limits`.
Value parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace levin
