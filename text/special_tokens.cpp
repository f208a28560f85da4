#include "levin/text/special_tokens.h"

#include <optional>
#include <string>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {
namespace {

/// ["[CLS]", 101]
std::int64_t number_of_pair(const JsonNode& node) {
  const std::vector<JsonNode> parts = node.elements();
  if (parts.size() != 2) node.fail("is no pair of a token and its number");
  return parts[1].number();
}

SpecialTokens read_template(const JsonNode& node) {
  SpecialTokens tokens;
  bool is_behind = false;
  for (const JsonNode& piece : node.at("single").elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (is_behind) sequence->refuse("a text that stands twice in its template");
      is_behind = true;
      continue;
    }
    const JsonNode name = piece.at("SpecialToken").at("id");
    const JsonNode known = node.at("special_tokens").at(name.text().c_str());
    for (const JsonNode& number : known.at("ids").elements()) {
      (is_behind ? tokens.behind : tokens.before).push_back(number.number());
    }
  }
  if (!is_behind) node.at("single").fail("lacks the text itself");
  return tokens;
}

}  // namespace

SpecialTokens read_special_tokens(const JsonNode& node) {
  node.check_depth();
  const std::string& type = node.type();
  if (type == "ByteLevel") return {};  // moves positions in the text only
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {.before = {number_of_pair(node.at("cls"))}, .behind = {number_of_pair(node.at("sep"))}};
  }
  if (type == "TemplateProcessing") return read_template(node);
  if (type == "Sequence") {
    SpecialTokens all;
    for (const JsonNode& part : node.at("processors").elements()) {
      const SpecialTokens tokens = read_special_tokens(part);
      all.before.insert(all.before.begin(), tokens.before.begin(), tokens.before.end());
      all.behind.insert(all.behind.end(), tokens.behind.begin(), tokens.behind.end());
    }
    return all;
  }
  node.at("type").refuse(format("the post-processor {}", quoted_text(type)));
}

}  // namespace levin::detail
