#pragma once

#include <cstdint>
#include <vector>

#include "levin/text/json_node.h"

namespace levin::detail {

/// What a tokenizer puts around the tokens of a text: "[CLS] … [SEP]".
struct SpecialTokens {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> behind;
};

/// The part `post_processor` of a tokenizer's file. Throws IoError for what is wrong or not supported.
SpecialTokens read_special_tokens(const JsonNode& node);

}  // namespace levin::detail
