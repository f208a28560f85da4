#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace levin::detail {

/// A value in a JSON file, which knows its path, "/model/merges/3". All that is wrong is an IoError that names it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  /// The member of this name. Throws where it is missing.
  JsonNode at(const char* name) const;
  /// Unset where it is missing or null.
  std::optional<JsonNode> find(const char* name) const;
  std::vector<JsonNode> elements() const;
  /// Calls `take(name, node)` for each member.
  template <class Take>
  void for_each_member(Take take) const {
    if (!value_->is_object()) fail("is no object");
    for (const auto& [name, member] : value_->items()) take(name, member);
  }

  const std::string& text() const;
  bool boolean() const;
  /// Of 31 bits and not negative, as numbers of tokens are.
  std::uint32_t number() const;
  double real() const;
  std::string text_or(const char* name, const char* otherwise) const;
  bool boolean_or(const char* name, bool otherwise) const;
  /// The text of the member "type".
  const std::string& type() const { return at("type").text(); }

  /// Throws where parts are nested deeper than files have them.
  void check_depth() const;

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;
  /// "is not supported", for a kind of part that this levin lacks.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace levin::detail
