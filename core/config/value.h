#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"

namespace levin {

/// A tree of plain values: a YAML document, a command-line override, a checkpoint's manifest or a callback's state. Maps
/// preserve the order in which keys were added. A node may carry its position in the source, for error messages.
class LEVIN_API Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<std::string, Value>>;

  Value() = default;  ///< null
  Value(std::nullptr_t) {}
  Value(bool value) : data_(value) {}
  Value(int value) : data_(static_cast<std::int64_t>(value)) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(const char* value) : data_(std::string(value)) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(std::string_view value) : data_(std::string(value)) {}
  Value(List value) : data_(std::move(value)) {}
  Value(Map value) : data_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_double() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_list() const { return std::holds_alternative<List>(data_); }
  bool is_map() const { return std::holds_alternative<Map>(data_); }

  /// The content. Throws ConfigError with the mark when the value is of another type; as_double takes an int too.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;
  const std::string& as_string() const;
  const List& as_list() const&;
  const Map& as_map() const&;
  List& as_list() &;
  Map& as_map() &;
  /// For temporaries, so that a loop over `f().as_list()` does not outlive its list.
  List as_list() && { return std::move(as_list()); }
  Map as_map() && { return std::move(as_map()); }

  /// The value under a key of a map; nullptr when the key is missing or this is not a map.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  /// The value under a key of a map. Throws ConfigError when it is missing.
  const Value& at(std::string_view key) const;
  /// The value under a key, added as null when missing. A null value becomes a map first.
  Value& operator[](std::string_view key);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  void push_back(Value value);  ///< A null value becomes a list first.
  std::size_t size() const;     ///< Elements of a list or map, else 0

  const Mark& mark() const { return mark_; }
  void set_mark(Mark mark) { mark_ = std::move(mark); }
  /// The value itself, with that mark.
  Value&& with_mark(Mark mark) && {
    mark_ = std::move(mark);
    return std::move(*this);
  }
  /// The position of this value's key, for errors about the key; mark() when unknown.
  Mark key_mark() const;
  void set_key_position(int line, int column);
  /// The text that a number was read from (0x10, 1_000, 0123), for options that are texts; empty: none.
  std::string_view written() const { return written_ ? std::string_view(*written_) : std::string_view(); }
  /// The value itself, read from that text.
  Value&& with_written(std::string text) &&;
  /// "null", "bool", "int", "float", "string", "list" or "map".
  const char* type_name() const;
  /// Compares contents, without marks and written(). An int and a float of the same number differ.
  friend bool operator==(const Value& left, const Value& right) { return left.data_ == right.data_; }

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map> data_;
  std::shared_ptr<const std::string> written_;
  Mark mark_;
  int key_line_ = 0;
  int key_column_ = 0;
};

/// A value in an error message: "string 'abc'", "float 0.1", "list of 3 elements". Long strings are truncated.
LEVIN_API std::string describe(const Value& value);

}  // namespace levin
