#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/text/merge_table.h"
#include "levin/text/models.h"
#include "levin/text/utf8.h"

namespace levin::detail {
namespace {

/// A token of a word whose merges are under way, in a list with its neighbours.
struct Symbol {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t token;
  std::uint32_t before = kNone;
  std::uint32_t behind = kNone;
  bool is_gone = false;  ///< it was merged into the one before
};

/// A merge that may be next: lower ranks first, then from left to right.
struct Candidate {
  std::uint32_t rank, place, token;
  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : place > other.place; }
};

class Bpe final : public TokenModel {
 public:
  explicit Bpe(const JsonNode& node)
      : TokenModel(Vocabulary(node.at("vocab"))),
        prefix_(node.text_or("continuing_subword_prefix", "")),
        suffix_(node.text_or("end_of_word_suffix", "")),
        fuses_unknown_(node.boolean_or("fuse_unk", false)),
        takes_whole_words_(node.boolean_or("ignore_merges", false)),
        merges_(node.at("merges").value().size()) {
    if (const auto dropout = node.find("dropout"); dropout && dropout->real() != 0.0) {
      dropout->refuse("dropout, which makes tokens random,");
    }
    if (const auto unknown = node.find("unk_token")) {
      unknown_ = vocabulary().number_of(unknown->text());
      has_unknown_name_ = true;
    }
    if (node.boolean_or("byte_fallback", false)) read_byte_tokens();
    read_characters();
    read_merges(node.at("merges"));
  }

  void append_tokens(std::string_view piece, std::vector<std::int64_t>& tokens) const override {
    if (takes_whole_words_) {
      if (const auto whole = vocabulary().number_of(piece)) {
        tokens.push_back(*whole);
        return;
      }
    }
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    divide(piece, symbols);
    merge(symbols);
    for (const Symbol& symbol : symbols) {
      if (!symbol.is_gone) tokens.push_back(symbol.token);
    }
  }

 private:
  /// Of all 256 bytes; the fallback is left out for characters with a byte that has none.
  void read_byte_tokens() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      byte_tokens_.push_back(vocabulary().number_of_byte(static_cast<unsigned char>(byte)));
    }
  }

  /// Tokens of the characters that words of byte-level and other alphabets mostly consist of.
  void read_characters() {
    for (char32_t character = 0; character < characters_.size(); ++character) {
      std::string text;
      append_character(text, character);
      characters_[character] = vocabulary().number_of(text);
    }
  }

  void read_merges(const JsonNode& node) {
    if (!node.value().is_array()) node.fail("is no list");
    std::uint32_t rank = 0;
    std::size_t place = 0;
    for (const nlohmann::json& element : node.value()) {
      const auto [left, right] = pair_of(element, node, place++);
      if (left.empty() && right.empty()) continue;
      const auto number = [&](std::string_view token) {
        const auto found = vocabulary().number_of(token);
        if (!found) {
          JsonNode(element, format("{}/{}", node.path(), place - 1))
              .fail(format("needs {}, which the vocabulary lacks", quoted_text(token)));
        }
        return *found;
      };
      const std::uint32_t left_number = number(left);
      const std::uint32_t right_number = number(right);
      const std::string_view rest = right.size() >= prefix_.size() ? right.substr(prefix_.size()) : std::string_view();
      merges_.add(left_number, right_number, {rank++, number(std::string(left).append(rest))});
    }
  }

  /// ["a", "b"], or "a b", as older files have it; empty for a comment.
  static std::pair<std::string_view, std::string_view> pair_of(const nlohmann::json& element, const JsonNode& node,
                                                               std::size_t place) {
    if (element.is_string()) {
      const std::string_view text = element.get_ref<const std::string&>();
      const std::size_t blank = text.find(' ');
      if (text.starts_with("#version")) return {};
      if (blank != std::string_view::npos && text.find(' ', blank + 1) == std::string_view::npos) {
        return {text.substr(0, blank), text.substr(blank + 1)};
      }
    } else if (element.is_array() && element.size() == 2 && element[0].is_string() && element[1].is_string()) {
      return {element[0].get_ref<const std::string&>(), element[1].get_ref<const std::string&>()};
    }
    JsonNode(element, format("{}/{}", node.path(), place)).fail("is no pair of tokens");
  }

  void divide(std::string_view piece, std::vector<Symbol>& symbols) const {
    bool has_open_unknown = false;
    std::size_t at = 0;
    for_each_character(piece, [&](char32_t character, std::string_view bytes) {
      const bool is_first = at == 0;
      at += bytes.size();
      const std::optional<std::uint32_t> known = token_of(character, bytes, is_first, at == piece.size());
      if (known) {
        has_open_unknown = false;
        add(symbols, *known);
      } else if (!add_bytes(bytes, is_first, at == piece.size(), symbols) && has_unknown_name_) {
        if (!unknown_) throw IoError("/model/unk_token is not in the vocabulary");
        // Neighbours that are unknown are one token, or one each.
        if (!has_open_unknown || !fuses_unknown_) add(symbols, *unknown_);
        has_open_unknown = true;
      }
    });
  }

  std::string decorated(std::string_view bytes, bool is_first, bool is_last) const {
    return std::string(is_first ? "" : prefix_).append(bytes).append(is_last ? suffix_ : "");
  }

  std::optional<std::uint32_t> token_of(char32_t character, std::string_view bytes, bool is_first, bool is_last) const {
    const bool is_decorated = (!is_first && !prefix_.empty()) || (is_last && !suffix_.empty());
    if (is_decorated) return vocabulary().number_of(decorated(bytes, is_first, is_last));
    return character < characters_.size() ? characters_[character] : vocabulary().number_of(bytes);
  }

  /// False where bytes have no tokens.
  bool add_bytes(std::string_view bytes, bool is_first, bool is_last, std::vector<Symbol>& symbols) const {
    if (byte_tokens_.empty()) return false;
    const std::string all = decorated(bytes, is_first, is_last);
    const auto token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
    if (!std::ranges::all_of(all, [&](char byte) { return token(byte).has_value(); })) return false;
    for (const char byte : all) add(symbols, *token(byte));
    return true;
  }

  static void add(std::vector<Symbol>& symbols, std::uint32_t token) {
    const auto place = static_cast<std::uint32_t>(symbols.size());
    if (place > 0) symbols.back().behind = place;
    symbols.push_back({token, place == 0 ? Symbol::kNone : place - 1, Symbol::kNone, false});
  }

  void merge(std::vector<Symbol>& symbols) const {
    thread_local std::vector<Candidate> queue;
    queue.clear();
    const auto find = [&](std::uint32_t place) -> const Merge* {
      const std::uint32_t behind = symbols[place].behind;
      return behind == Symbol::kNone ? nullptr : merges_.find(symbols[place].token, symbols[behind].token);
    };
    for (std::uint32_t place = 0; place + 1 < symbols.size(); ++place) {
      if (const Merge* const found = find(place)) queue.push_back({found->rank, place, found->token});
    }
    std::make_heap(queue.begin(), queue.end());
    const auto consider = [&](std::uint32_t place) {
      if (place == Symbol::kNone) return;
      const Merge* const found = find(place);
      if (found == nullptr) return;
      queue.push_back({found->rank, place, found->token});
      std::push_heap(queue.begin(), queue.end());
    };
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end());
      const Candidate next = queue.back();
      queue.pop_back();
      Symbol& left = symbols[next.place];
      const Merge* const now = left.is_gone ? nullptr : find(next.place);
      // One of the two may have been merged with another since.
      if (now == nullptr || now->token != next.token) continue;
      Symbol& right = symbols[left.behind];
      left.token = next.token;
      left.behind = right.behind;
      right.is_gone = true;
      if (left.behind != Symbol::kNone) symbols[left.behind].before = next.place;
      consider(left.before);
      consider(next.place);
    }
  }

  std::string prefix_, suffix_;
  bool fuses_unknown_, takes_whole_words_;
  bool has_unknown_name_ = false;
  std::optional<std::uint32_t> unknown_;
  std::vector<std::optional<std::uint32_t>> byte_tokens_;
  std::array<std::optional<std::uint32_t>, 0x180> characters_;
  MergeTable merges_;
};

}  // namespace

std::unique_ptr<const TokenModel> read_bpe(const JsonNode& node) { return std::make_unique<Bpe>(node); }

}  // namespace levin::detail
