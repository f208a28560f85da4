#include "levin/text/models.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/text/utf8.h"

namespace levin::detail {
namespace {

/// The number of a model's unknown token.
class UnknownToken {
 public:
  UnknownToken(const JsonNode& node, const char* otherwise, const Vocabulary& vocabulary)
      : name_(node.text_or("unk_token", otherwise)), number_(vocabulary.number_of(name_)) {}
  std::uint32_t number() const {
    if (!number_) throw IoError(format("/model/unk_token: {} is needed, and not in the vocabulary", quoted_text(name_)));
    return *number_;
  }

 private:
  std::string name_;
  std::optional<std::uint32_t> number_;
};

class WordPiece final : public TokenModel {
 public:
  explicit WordPiece(const JsonNode& node)
      : TokenModel(Vocabulary(node.at("vocab"))),
        unknown_(node, "[UNK]", vocabulary()),
        prefix_(node.text_or("continuing_subword_prefix", "##")),
        most_characters_(node.find("max_input_chars_per_word") ? node.at("max_input_chars_per_word").number() : 100) {}

  void append_tokens(std::string_view piece, std::vector<std::int64_t>& tokens) const override {
    const std::size_t before = tokens.size();
    const auto characters = std::ranges::count_if(piece, [](char byte) { return !is_utf8_continuation(byte); });
    bool is_known = static_cast<std::size_t>(characters) <= most_characters_;
    std::size_t begin = 0;
    while (is_known && begin < piece.size()) {
      const std::size_t length = append_longest(piece.substr(begin), begin > 0, tokens);
      is_known = length > 0;
      begin += length;
    }
    if (is_known) return;
    tokens.resize(before);
    tokens.push_back(unknown_.number());
  }

 private:
  /// Bytes of the longest token that the rest of a word begins with; 0: there is none.
  std::size_t append_longest(std::string_view rest, bool is_continued, std::vector<std::int64_t>& tokens) const {
    thread_local std::string candidate;
    candidate.assign(is_continued ? prefix_ : "");
    const std::size_t before = candidate.size();
    candidate.append(rest.substr(0, vocabulary().longest()));
    while (candidate.size() > before) {
      const std::size_t length = candidate.size() - before;
      const bool is_whole = length == rest.size() || !is_utf8_continuation(rest[length]);
      const auto found = is_whole ? vocabulary().number_of(candidate) : std::nullopt;
      if (found) {
        tokens.push_back(*found);
        return length;
      }
      candidate.pop_back();
    }
    return 0;
  }

  UnknownToken unknown_;
  std::string prefix_;
  std::size_t most_characters_;
};

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const JsonNode& node) : TokenModel(Vocabulary(node.at("vocab"))), unknown_(node, "<unk>", vocabulary()) {}
  void append_tokens(std::string_view piece, std::vector<std::int64_t>& tokens) const override {
    const auto known = vocabulary().number_of(piece);
    tokens.push_back(known ? *known : unknown_.number());
  }

 private:
  UnknownToken unknown_;
};

}  // namespace

std::unique_ptr<const TokenModel> read_word_piece(const JsonNode& node) { return std::make_unique<WordPiece>(node); }
std::unique_ptr<const TokenModel> read_word_level(const JsonNode& node) { return std::make_unique<WordLevel>(node); }

std::unique_ptr<const TokenModel> read_model(const JsonNode& node) {
  const std::optional<JsonNode> type = node.find("type");
  // Files of 2019 do not name the type; only byte-pair encoding has merges.
  const std::string name = type ? type->text() : node.find("merges") ? "BPE" : "WordPiece";
  if (name == "BPE") return read_bpe(node);
  if (name == "WordPiece") return read_word_piece(node);
  if (name == "WordLevel") return read_word_level(node);
  if (name == "Unigram") return read_unigram(node);
  type->refuse(format("the model {}", quoted_text(name)));
}

}  // namespace levin::detail
