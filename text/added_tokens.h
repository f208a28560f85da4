#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "levin/text/json_node.h"
#include "levin/text/models.h"
#include "levin/text/normalizers.h"

namespace levin::detail {

/// A token beside the model's: "<|endoftext|>".
struct AddedToken {
  std::string content;
  std::uint32_t number = 0;
  bool is_single_word = false;
  bool takes_blanks_before = false;
  bool takes_blanks_behind = false;
  bool is_normalized = false;  ///< it is looked for in the normalized text, else in the given one
  bool is_special = false;     ///< decoding may leave it out
};

/// Texts to be found, as a tree of their bytes.
class TextFinder {
 public:
  void add(std::string_view text, std::size_t value);
  /// The leftmost of them from `from` on, of these the longest: where, and its value. Unset for none.
  struct Found {
    std::size_t begin, end, value;
  };
  std::optional<Found> find(std::string_view text, std::size_t from) const;
  bool is_empty() const { return nodes_.empty(); }

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    std::optional<std::size_t> value;
  };
  const Node* child(const Node& node, char byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};  ///< bytes that one of the texts begins with
};

/// The part `added_tokens` of a tokenizer's file.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Throws IoError for what is wrong.
  AddedTokens(const JsonNode& node, const TokenModel& model, const Normalizer* normalizer, const UnicodeLibrary& unicode);

  /// Calls `take_text(part, where it begins)` and `take_token(number)` for what the text consists of.
  template <class TakeText, class TakeToken>
  void divide(std::string_view text, bool is_normalized, TakeText take_text, TakeToken take_token) const {
    const TextFinder& finder = is_normalized ? in_normalized_ : in_given_;
    std::size_t at = 0;
    std::size_t searched = 0;
    while (const auto found = finder.is_empty() ? std::nullopt : finder.find(text, searched)) {
      searched = found->end;
      const AddedToken& token = tokens_[found->value];
      std::size_t begin = found->begin;
      std::size_t end = found->end;
      if (token.is_single_word && is_within_word(text, begin, end)) continue;
      if (token.takes_blanks_before) begin = std::max(at, begin_of_blanks(text, begin));
      if (token.takes_blanks_behind) end = end_of_blanks(text, end);
      if (begin > at) take_text(text.substr(at, begin - at), at);
      take_token(token.number);
      at = end;
    }
    if (at < text.size()) take_text(text.substr(at), at);
  }

  std::optional<std::uint32_t> number_of(std::string_view content) const;
  /// As a decoder gets it; null for a number that is no added token's.
  const std::string* text_of(std::uint32_t number) const;
  bool is_special(std::string_view text) const;
  /// The largest number, and 1.
  std::uint32_t end() const { return end_; }

 private:
  bool is_within_word(std::string_view text, std::size_t begin, std::size_t end) const;
  static std::size_t begin_of_blanks(std::string_view text, std::size_t end);
  static std::size_t end_of_blanks(std::string_view text, std::size_t begin);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::uint32_t, std::string> texts_;
  std::unordered_map<std::string, bool> specials_;
  TextFinder in_given_, in_normalized_;
  std::shared_ptr<const Pattern> word_character_;
  const UnicodeLibrary* unicode_ = nullptr;
  std::uint32_t end_ = 0;
};

}  // namespace levin::detail
