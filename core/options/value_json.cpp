#include "levin/core/options/value_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {
namespace {

using nlohmann::json;

constexpr char kFloatKey[] = "$float";
constexpr char kHexKey[] = "$hex";
constexpr char kHexKeyPrefix[] = "$hex:";

std::string hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string bytes_from_hex(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw IoError("not a hexadecimal number");
  };
  if (text.size() % 2 != 0) throw IoError("not a hexadecimal number");
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) bytes += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return bytes;
}

// The text in JSON's quotes, or nothing when it is not UTF-8.
bool append_quoted(std::string& out, const std::string& text) {
  try {
    out += json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

std::string too_many_values() { return format("more than {} values", kMaxJsonValues); }

class Writer {
 public:
  std::string out;

  void write(const Value& value, std::size_t depth) {
    if (depth > kMaxJsonDepth) throw IoError(format("values nested deeper than {} levels", kMaxJsonDepth));
    if (++values_ > kMaxJsonValues) throw IoError(too_many_values());
    if (value.is_null()) {
      out += "null";
    } else if (value.is_bool()) {
      out += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      out += std::to_string(value.as_int());
    } else if (value.is_double()) {
      write_double(value.as_double());
    } else if (value.is_string()) {
      write_string(value.as_string());
    } else if (value.is_list()) {
      write_list(value.as_list(), depth);
    } else {
      write_map(value.as_map(), depth);
    }
  }

 private:
  void write_double(double number) {
    if (std::isfinite(number)) {
      out += json(number).dump();
    } else {
      const char* name = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
      out += format("{{\"{}\":\"{}\"}}", kFloatKey, name);
    }
  }

  void write_string(const std::string& text) {
    if (!append_quoted(out, text)) out += format("{{\"{}\":\"{}\"}}", kHexKey, hex(text));
  }

  void write_key(const std::string& key) {
    const std::string escaped = key.starts_with('$') ? "$" + key : key;
    if (!append_quoted(out, escaped)) out += format("\"{}{}\"", kHexKeyPrefix, hex(key));
  }

  void write_list(const Value::List& list, std::size_t depth) {
    out += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ',';
      write(list[i], depth + 1);
    }
    out += ']';
  }

  void write_map(const Value::Map& map, std::size_t depth) {
    out += '{';
    bool first = true;
    for (const auto& [key, element] : map) {
      if (!first) out += ',';
      first = false;
      write_key(key);
      out += ':';
      write(element, depth + 1);
    }
    out += '}';
  }

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

std::string to_json(const Value& value) {
  Writer writer;
  writer.write(value, 0);
  return std::move(writer.out);
}

Value parse_json(std::string_view text, const JsonLimits& limits) {
  Reader reader(limits);
  if (!json::sax_parse(text, &reader)) throw IoError("not JSON");
  return reader.take();
}

}  // namespace levin
