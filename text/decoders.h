#pragma once

#include <memory>
#include <string>
#include <vector>

#include "levin/text/json_node.h"
#include "levin/text/pattern.h"

namespace levin::detail {

/// Makes texts of tokens, which are joined in the end. Threading: any.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual void decode(std::vector<std::string>& tokens, const PatternMatcher& matcher) const = 0;
};

/// The part `decoder` of a tokenizer's file. Throws IoError for what is wrong or not supported.
std::unique_ptr<const TokenDecoder> read_decoder(const JsonNode& node, const UnicodeLibrary& unicode);

}  // namespace levin::detail
