#pragma once

#include <string>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/data/pipeline.h"

namespace levin {

/// The values of JSON lines, such as {"text": "…", "label": 3}: one in each line of text files, which may be compressed by
/// gzip or zstd. Empty lines are passed over. A line that is no JSON is an IoError, with file and line.
///
///     levin::from_json_lines("reviews/*.jsonl").map([](const levin::Value& review) {
///       return encode(review.at("text").as_string());
///     })
LEVIN_API Pipeline<Value> from_json_lines(const std::vector<std::string>& patterns);
inline Pipeline<Value> from_json_lines(const std::string& pattern) {
  return from_json_lines(std::vector<std::string>{pattern});
}

}  // namespace levin
