#include "levin/core/config/value_json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFloatKey[] = "$float";
constexpr char kHexKey[] = "$hex";
constexpr char kHexKeyPrefix[] = "$hex:";

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string bytes_from_hex(std::string_view text) {
  std::string bytes;
  for (; !text.empty(); text.remove_prefix(2)) {
    unsigned byte = 0;
    const char* const first = text.data();
    const bool is_byte = text.size() > 1 && std::from_chars(first, first + 2, byte, /*base=*/16).ptr == first + 2;
    if (!is_byte) throw IoError("not a hexadecimal number");
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

bool is_utf8(std::string_view text) {
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = utf8_length(text);
    if (length == 0) return false;
  }
  return true;
}

std::string too_many_values() { return format("more than {} values", kMaxJsonValues); }

/// The values as nlohmann's, which writes them.
class Writer {
 public:
  /// `is_plain`: for other programs, without forms and limits.
  explicit Writer(bool is_plain) : is_plain_(is_plain) {}

  ordered_json json_of(const Value& value, std::size_t depth = 0) {
    if (!is_plain_ && depth > kMaxJsonDepth) throw IoError(format("values nested deeper than {} levels", kMaxJsonDepth));
    if (!is_plain_ && ++values_ > kMaxJsonValues) throw IoError(too_many_values());
    if (value.is_bool()) return value.as_bool();
    if (value.is_int()) return value.as_int();
    if (value.is_double()) return json_of_float(value.as_double());
    if (value.is_string()) return json_of_text(value.as_string());
    if (value.is_list()) {
      ordered_json list = ordered_json::array();
      for (const Value& element : value.as_list()) list.push_back(json_of(element, depth + 1));
      return list;
    }
    if (value.is_map()) {
      // Put to the end of its vector: looking each key up first would take the square of their number.
      ordered_json::object_t map;
      map.reserve(value.size());
      for (const auto& [key, element] : value.as_map()) map.emplace_back(key_of(key), json_of(element, depth + 1));
      return ordered_json(std::move(map));
    }
    return nullptr;
  }

 private:
  static ordered_json form(const char* key, const std::string& text) { return ordered_json::object({{key, text}}); }
  ordered_json json_of_text(const std::string& text) const {
    if (is_plain_ || is_utf8(text)) return text;
    return form(kHexKey, hex(text));
  }
  ordered_json json_of_float(double number) const {
    if (is_plain_ || std::isfinite(number)) return number;
    return form(kFloatKey, std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
  }
  std::string key_of(const std::string& key) const {
    if (is_plain_) return key;
    if (!is_utf8(key)) return kHexKeyPrefix + hex(key);
    return key.starts_with('$') ? "$" + key : key;
  }

  const bool is_plain_;
  std::size_t values_ = 0;
};

// Builds values from the events of the parser, so that nothing is nested deeper than allowed at any time.
class Reader final : public json::json_sax_t {
 public:
  explicit Reader(const JsonLimits& limits) : limits_(limits) {}
  Value take() { return std::move(root_); }

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value(value)); }
  bool number_integer(json::number_integer_t value) override { return add(Value(static_cast<std::int64_t>(value))); }
  bool number_unsigned(json::number_unsigned_t value) override {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) fail_integer();
    return add(Value(static_cast<std::int64_t>(value)));
  }
  bool number_float(json::number_float_t value, const std::string& text) override {
    // The parser turns an integer that is too large into a float.
    if (text.find_first_of(".eE") == std::string::npos) fail_integer();
    return add(Value(value));
  }
  bool string(std::string& text) override { return add(Value(std::move(text))); }
  bool binary(json::binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Value(Value::Map{})); }
  bool start_array(std::size_t) override { return open(Value(Value::List{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& text) override {
    if (!open_.back().keys.insert(text).second)
      throw IoError(format("the key \"{}\" occurs twice in one map", text.substr(0, 100)));
    open_.back().key = std::move(text);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    throw IoError(format("not JSON at byte {}", position));
  }

 private:
  struct Frame {
    Value value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  [[noreturn]] static void fail_integer() { throw IoError("an integer of more than 64 bits"); }

  bool open(Value value) {
    if (open_.size() >= limits_.depth) throw IoError(format("JSON nested deeper than {} levels", limits_.depth));
    open_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    return add(decoded(std::move(value)));
  }

  bool add(Value value) {
    if (++values_ > kMaxJsonValues) throw IoError(too_many_values());
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = open_.back(); frame.value.is_list()) {
      Value::List& list = frame.value.as_list();
      if (list.size() >= limits_.list_size) throw IoError(format("a list of more than {} elements", limits_.list_size));
      list.push_back(std::move(value));
    } else {
      frame.value.as_map().emplace_back(std::move(frame.key), std::move(value));
    }
    return true;
  }

  static Value decoded(Value value) {
    if (!value.is_map()) return value;
    Value::Map& map = value.as_map();
    if (map.size() == 1 && map[0].second.is_string()) {
      if (map[0].first == kHexKey) return Value(bytes_from_hex(map[0].second.as_string()));
      if (map[0].first == kFloatKey) return decoded_float(map[0].second.as_string());
    }
    for (auto& [key, element] : map) {
      if (key.starts_with("$$")) {
        key.erase(0, 1);
      } else if (key.starts_with(kHexKeyPrefix)) {
        key = bytes_from_hex(std::string_view(key).substr(sizeof(kHexKeyPrefix) - 1));
      } else if (key.starts_with('$')) {
        throw IoError(format("unknown form \"{}\"", key.substr(0, 100)));
      }
    }
    return value;
  }

  static Value decoded_float(const std::string& name) {
    if (name == "nan") return Value(std::numeric_limits<double>::quiet_NaN());
    if (name == "inf") return Value(std::numeric_limits<double>::infinity());
    if (name == "-inf") return Value(-std::numeric_limits<double>::infinity());
    throw IoError(format("unknown float \"{}\"", name.substr(0, 100)));
  }

  const JsonLimits limits_;
  std::vector<Frame> open_;
  Value root_;
  std::size_t values_ = 0;
};

}  // namespace

std::string to_json(const Value& value) { return Writer(/*is_plain=*/false).json_of(value).dump(); }

std::string plain_json(const Value& value) {
  return Writer(/*is_plain=*/true).json_of(value).dump(2, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

Value parse_json(std::string_view text, const JsonLimits& limits) {
  Reader reader(limits);
  if (!json::sax_parse(text, &reader)) throw IoError("not JSON");
  return reader.take();
}

}  // namespace levin
