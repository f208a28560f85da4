#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "levin/text/json_node.h"

namespace levin::detail {

/// Tokens and their numbers.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// An object of numbers by token.
  explicit Vocabulary(const JsonNode& node);

  void add(std::string token, std::uint32_t number);
  std::optional<std::uint32_t> number_of(std::string_view token) const;
  /// Of the token that stands for a byte where no other has it, "<0x0A>".
  std::optional<std::uint32_t> number_of_byte(unsigned char byte) const;
  /// Null for a number without a token.
  const std::string* token_of(std::uint32_t number) const;
  std::size_t size() const { return numbers_.size(); }
  /// The largest number, and 1.
  std::uint32_t end() const { return end_; }
  /// Bytes of the longest token.
  std::size_t longest() const { return longest_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Numbers = std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>>;

  Numbers numbers_;
  std::unordered_map<std::uint32_t, const std::string*> tokens_;
  std::uint32_t end_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace levin::detail
