#pragma once

#include <memory>
#include <string>

#include "levin/text/json_node.h"
#include "levin/text/pattern.h"

namespace levin::detail {

/// Changes a text before it is divided. Threading: any.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(std::string& text, const PatternMatcher& matcher) const = 0;
};

/// The part `normalizer` of a tokenizer's file. Throws IoError for what is wrong or not supported.
std::unique_ptr<const Normalizer> read_normalizer(const JsonNode& node, const UnicodeLibrary& unicode);

/// Replaces each match of a pattern; also a decoder.
class Replacement {
 public:
  Replacement(const JsonNode& node, const UnicodeLibrary& unicode);
  std::string operator()(std::string_view text, const PatternMatcher& matcher) const;

 private:
  Pattern pattern_;
  std::string content_;
};

/// A pattern that is given as {"String": …} or {"Regex": …}.
Pattern read_pattern(const JsonNode& node, const UnicodeLibrary& unicode);

}  // namespace levin::detail
