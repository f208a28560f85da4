#include "levin/text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/format.h"

namespace levin::detail {

Vocabulary::Vocabulary(const JsonNode& node) {
  numbers_.reserve(node.value().size());
  tokens_.reserve(node.value().size());
  node.for_each_member([&](const std::string& token, const nlohmann::json& number) {
    add(token, JsonNode(number, format("{}/{}", node.path(), token)).number());
  });
}

void Vocabulary::add(std::string token, std::uint32_t number) {
  longest_ = std::max(longest_, token.size());
  const auto place = numbers_.insert_or_assign(std::move(token), number).first;
  tokens_[number] = &place->first;
  end_ = std::max(end_, number + 1);
}

std::optional<std::uint32_t> Vocabulary::number_of(std::string_view token) const {
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint32_t> Vocabulary::number_of_byte(unsigned char byte) const {
  return number_of(format("<0x{:02X}>", static_cast<unsigned>(byte)));
}

const std::string* Vocabulary::token_of(std::uint32_t number) const {
  const auto found = tokens_.find(number);
  return found == tokens_.end() ? nullptr : found->second;
}

}  // namespace levin::detail
