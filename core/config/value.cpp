#include "levin/core/config/value.h"

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

// One body for the const and the mutable accessor.
template <class Content, class Data>
auto& content_of(Data& data, const Value& value, const char* expected) {
  if (auto* content = std::get_if<Content>(&data)) return *content;
  throw ConfigError(value.mark(), format("expected {}, got {}", expected, describe(value)));
}

}  // namespace

bool Value::as_bool() const { return content_of<bool>(data_, *this, "bool"); }
std::int64_t Value::as_int() const { return content_of<std::int64_t>(data_, *this, "int"); }

double Value::as_double() const {
  if (is_int()) return static_cast<double>(as_int());
  return content_of<double>(data_, *this, "float");
}

const std::string& Value::as_string() const { return content_of<std::string>(data_, *this, "string"); }
const Value::List& Value::as_list() const& { return content_of<List>(data_, *this, "list"); }
const Value::Map& Value::as_map() const& { return content_of<Map>(data_, *this, "map"); }
Value::List& Value::as_list() & { return content_of<List>(data_, *this, "list"); }
Value::Map& Value::as_map() & { return content_of<Map>(data_, *this, "map"); }

const Value* Value::find(std::string_view key) const {
  const Map* map = std::get_if<Map>(&data_);
  if (map == nullptr) return nullptr;
  for (const auto& [name, value] : *map) {
    if (name == key) return &value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

const Value& Value::at(std::string_view key) const {
  as_map();
  if (const Value* value = find(key)) return *value;
  throw ConfigError(mark_, "missing key " + quoted_text(key));
}

Value& Value::operator[](std::string_view key) {
  if (is_null()) data_ = Map{};
  if (Value* value = find(key)) return *value;
  return as_map().emplace_back(std::string(key), Value()).second;
}

void Value::push_back(Value value) {
  if (is_null()) data_ = List{};
  as_list().push_back(std::move(value));
}

std::size_t Value::size() const {
  if (is_list()) return as_list().size();
  return is_map() ? as_map().size() : 0;
}

Mark Value::key_mark() const { return key_line_ > 0 ? Mark{mark_.file, key_line_, key_column_} : mark_; }

void Value::set_key_position(int line, int column) {
  key_line_ = line;
  key_column_ = column;
}

Value&& Value::with_written(std::string text) && {
  written_ = std::make_shared<const std::string>(std::move(text));
  return std::move(*this);
}

const char* Value::type_name() const {
  constexpr const char* kNames[] = {"null", "bool", "int", "float", "string", "list", "map"};
  return kNames[data_.index()];
}

std::string describe(const Value& value) {
  const std::string type = value.type_name();
  if (value.is_bool()) return type + (value.as_bool() ? " true" : " false");
  if (value.is_int()) return format("{} {}", type, value.as_int());
  if (value.is_double()) return format("{} {}", type, value.as_double());
  if (value.is_string()) return format("{} {}", type, quoted_text(value.as_string(), 60));
  if (value.is_list()) return "list of " + counted(value.size(), "element");
  if (value.is_map()) return "map of " + counted(value.size(), "key");
  return type;
}

}  // namespace levin
