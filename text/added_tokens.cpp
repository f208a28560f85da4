#include "levin/text/added_tokens.h"

#include <algorithm>

#include "levin/text/utf8.h"

namespace levin::detail {

void TextFinder::add(std::string_view text, std::size_t value) {
  if (nodes_.empty()) nodes_.emplace_back();
  begins_[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t at = 0;
  for (const char byte : text) {
    if (const Node* const next = child(nodes_[at], byte)) {
      at = static_cast<std::uint32_t>(next - nodes_.data());
    } else {
      nodes_[at].children.emplace_back(byte, static_cast<std::uint32_t>(nodes_.size()));
      at = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    }
  }
  nodes_[at].value = value;
}

const TextFinder::Node* TextFinder::child(const Node& node, char byte) const {
  for (const auto& [first, number] : node.children) {
    if (first == byte) return &nodes_[number];
  }
  return nullptr;
}

std::optional<TextFinder::Found> TextFinder::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Found> longest;
    const Node* node = nodes_.data();
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child(*node, text[at]);
      if (node == nullptr) break;
      if (node->value) longest = Found{begin, at + 1, *node->value};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

namespace {

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token{.content = node.at("content").text(),
                   .number = 0,
                   .is_single_word = node.boolean_or("single_word", false),
                   .takes_blanks_before = node.boolean_or("lstrip", false),
                   .takes_blanks_behind = node.boolean_or("rstrip", false),
                   .is_normalized = node.boolean_or("normalized", true),
                   .is_special = node.boolean_or("special", false)};
  return token;
}

}  // namespace

AddedTokens::AddedTokens(const JsonNode& node, const TokenModel& model, const Normalizer* normalizer,
                         const UnicodeLibrary& unicode)
    : unicode_(&unicode) {
  const PatternMatcher matcher(unicode);
  // A token that the model lacks gets the next number, whatever the file says: as Hugging Face's library does.
  auto next = static_cast<std::uint32_t>(model.vocabulary().size());
  for (const JsonNode& element : node.elements()) {
    AddedToken token = read_added_token(element);
    if (token.content.empty()) continue;
    const auto known = number_of(token.content);
    const auto of_model = model.vocabulary().number_of(token.content);
    token.number = known ? *known : of_model ? *of_model : next++;
    std::string normalized = token.content;
    if (token.is_normalized && normalizer != nullptr) normalizer->normalize(normalized, matcher);
    numbers_[token.content] = token.number;
    texts_[token.number] = normalized;
    if (token.is_special) specials_[token.content] = true;
    end_ = std::max(end_, token.number + 1);
    if (!normalized.empty()) (token.is_normalized ? in_normalized_ : in_given_).add(normalized, tokens_.size());
    if (token.is_single_word && !word_character_) {
      word_character_ = std::make_shared<Pattern>(R"(\A[\w\x{200c}\x{200d}])", unicode);
    }
    tokens_.push_back(std::move(token));
  }
}

std::optional<std::uint32_t> AddedTokens::number_of(std::string_view content) const {
  const auto found = numbers_.find(std::string(content));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* AddedTokens::text_of(std::uint32_t number) const {
  const auto found = texts_.find(number);
  return found == texts_.end() ? nullptr : &found->second;
}

bool AddedTokens::is_special(std::string_view text) const { return specials_.contains(std::string(text)); }

bool AddedTokens::is_within_word(std::string_view text, std::size_t begin, std::size_t end) const {
  const PatternMatcher matcher(*unicode_);
  const auto begins_with_word = [&](std::string_view part) {
    bool found = false;
    word_character_->for_each_match(part.substr(0, std::min<std::size_t>(part.size(), 4)), matcher,
                                    [&](std::size_t, std::size_t) { found = true; });
    return found;
  };
  std::size_t before = begin;
  while (before > 0 && is_utf8_continuation(text[before - 1])) --before;
  if (before > 0) --before;
  const auto character_at = [&](std::size_t place) { return text.substr(place, utf8_length(text.substr(place))); };
  return (begin > 0 && begins_with_word(character_at(before))) || (end < text.size() && begins_with_word(character_at(end)));
}

std::size_t AddedTokens::begin_of_blanks(std::string_view text, std::size_t end) {
  return without_spaces(text.substr(0, end), false, true).size();
}

std::size_t AddedTokens::end_of_blanks(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at));
    if (!is_white_space(utf8_code_point(text.substr(at), length))) break;
    at += length;
  }
  return at;
}

}  // namespace levin::detail
