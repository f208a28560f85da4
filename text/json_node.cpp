#include "levin/text/json_node.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {

JsonNode JsonNode::at(const char* name) const {
  if (!value_->is_object()) fail("is no object");
  const auto found = value_->find(name);
  if (found == value_->end()) fail(format("lacks {}", quoted_text(name)));
  return {*found, format("{}/{}", path_, name)};
}

std::optional<JsonNode> JsonNode::find(const char* name) const {
  if (!value_->is_object()) fail("is no object");
  const auto found = value_->find(name);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, format("{}/{}", path_, name));
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) fail("is no list");
  std::vector<JsonNode> elements;
  elements.reserve(value_->size());
  for (const nlohmann::json& element : *value_) elements.emplace_back(element, format("{}/{}", path_, elements.size()));
  return elements;
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) fail("is no text");
  return value_->get_ref<const std::string&>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail("is neither true nor false");
  return value_->get<bool>();
}

std::uint32_t JsonNode::number() const {
  constexpr std::uint64_t kMost = 0x7fffffff;
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > kMost) fail("is no number of a token");
  return value_->get<std::uint32_t>();
}

double JsonNode::real() const {
  if (!value_->is_number()) fail("is no number");
  return value_->get<double>();
}

std::string JsonNode::text_or(const char* name, const char* otherwise) const {
  const std::optional<JsonNode> member = find(name);
  return member ? member->text() : otherwise;
}

bool JsonNode::boolean_or(const char* name, bool otherwise) const {
  const std::optional<JsonNode> member = find(name);
  return member ? member->boolean() : otherwise;
}

void JsonNode::check_depth() const {
  constexpr std::size_t kLongestPath = 1000;
  if (path_.size() > kLongestPath) fail("is nested too deeply");
}

void JsonNode::fail(const std::string& what) const {
  throw IoError(format("{} {}", path_.empty() ? "the whole" : path_, what));
}

void JsonNode::refuse(const std::string& what) const { fail(format("{} is not supported", what)); }

}  // namespace levin::detail
