#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "levin/text/json_node.h"
#include "levin/text/vocabulary.h"

namespace levin::detail {

/// Makes tokens of pieces. Threading: any.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  /// Appends the tokens of a piece, which is not empty. Throws IoError where the model needs an unknown token and has none.
  virtual void append_tokens(std::string_view piece, std::vector<std::int64_t>& tokens) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

/// Byte-pair encoding: joins the pair that comes first in the list of merges, again and again.
std::unique_ptr<const TokenModel> read_bpe(const JsonNode& node);
/// WordPiece: the longest token that a word begins with, then that of its rest.
std::unique_ptr<const TokenModel> read_word_piece(const JsonNode& node);
/// Whole words.
std::unique_ptr<const TokenModel> read_word_level(const JsonNode& node);
/// Unigram: the division of a piece with the largest sum of scores.
std::unique_ptr<const TokenModel> read_unigram(const JsonNode& node);

/// The part `model` of a tokenizer's file. Throws IoError for what is wrong or not supported.
std::unique_ptr<const TokenModel> read_model(const JsonNode& node);

}  // namespace levin::detail
