#include "levin/cli/yaml_reader.h"

#include <yaml-cpp/binary.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return text == word; });
}

[[noreturn]] void throw_too_large(const std::string& text) {
  throw ConfigError(format("the number {} does not fit into 64 bits; put it in quotes if it is meant as text", text));
}

std::optional<double> special_float(const std::string& text) {
  const bool sign = text[0] == '+' || text[0] == '-';
  if (is_one_of(text.substr(sign ? 1 : 0), {".inf", ".Inf", ".INF"}))
    return text[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::int64_t parse_int(const std::string& digits, int base, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) throw_too_large(text);
  return number;
}

/// What an unquoted YAML scalar means, by YAML 1.2's core schema with two habits of Python's readers: 50_000 is an int, and
/// 1e-3 a float. Everything else (yes, 0:30, 2026-01-01) is a string. Throws ConfigError (without a mark) on a number that does
/// not fit into 64 bits.
Value resolve_plain_scalar(const std::string& text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return Value();
  if (is_one_of(text, {"true", "True", "TRUE"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE"})) return false;
  if (const auto number = special_float(text)) return *number;

  // Longer texts are no numbers, and std::regex recurses over its input.
  if (text.size() > 400 || text.find_first_of("0123456789") == std::string::npos) return text;
  static const std::regex kDecimal("[-+]?[0-9](_?[0-9])*");
  static const std::regex kOtherBase("0o[0-7]+|0x[0-9a-fA-F]+");
  static const std::regex kFloat("[-+]?(\\.[0-9]+|[0-9](_?[0-9])*(\\.[0-9]*)?)([eE][-+]?[0-9]+)?");
  if (std::regex_match(text, kOtherBase)) return parse_int(text.substr(2), text[1] == 'x' ? 16 : 8, text);
  const bool is_int = std::regex_match(text, kDecimal);
  if (!is_int && !std::regex_match(text, kFloat)) return text;
  std::string digits = text.substr(text[0] == '+' ? 1 : 0);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (is_int) return parse_int(digits, 10, text);
  // A number too small for a float is 0; one too large is a mistake.
  const std::optional<double> number = parse_float(digits);
  if (!number || std::isinf(*number)) throw_too_large(text);
  return *number;
}

constexpr const char* kTag = "tag:yaml.org,2002:";

[[noreturn]] void throw_unknown_tag(const Mark& mark, const std::string& tag) {
  throw ConfigError(mark, "unknown tag " + quoted_text(tag) +
                              "; YAML's own are known: !!str, !!binary, !!int, !!float, !!bool, !!null, !!map, !!seq");
}

// yaml-cpp's decoder takes anything: it reads before its table on a byte of another alphabet, and padding anywhere.
bool is_base64(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  const std::size_t end = std::min(text.find('='), text.size());
  const bool known_letters = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  });
  return known_letters && text.size() % 4 == 0 && text.size() - end <= 2 &&
         text.find_first_not_of('=', end) == std::string::npos;
}

// A scalar with an explicit tag, such as `!!str 5`.
Value tagged_scalar(const Mark& mark, const std::string& tag, const std::string& text) {
  if (tag == format("{}str", kTag)) return text;
  if (tag == format("{}binary", kTag)) {
    if (!is_base64(text)) throw ConfigError(mark, "this is no base64, as !!binary needs");
    const std::vector<unsigned char> bytes = YAML::DecodeBase64(text);
    return std::string(bytes.begin(), bytes.end());
  }
  const std::vector<std::string> types = {"int", "float", "bool", "null"};
  const auto type = std::find_if(types.begin(), types.end(), [&](const std::string& name) { return tag == kTag + name; });
  if (type == types.end()) throw_unknown_tag(mark, tag);
  Value value = resolve_plain_scalar(text);
  if (*type == "float" && value.is_int()) return value.as_double();
  if (value.type_name() != *type) throw ConfigError(mark, "expected " + *type + ", as the tag says, got " + describe(value));
  return value;
}

Value read_scalar(const Mark& mark, const std::string& tag, const std::string& text) {
  try {
    // yaml-cpp's tags: "?" for a plain scalar, "!" for a quoted one.
    if (tag == "?" || tag.empty()) return resolve_plain_scalar(text);
    return tag == "!" ? Value(text) : tagged_scalar(mark, tag, text);
  } catch (const ConfigError& error) {
    if (error.mark().line > 0) throw;
    throw ConfigError(mark, error.message());
  }
}

// Keys are texts, whatever they look like: 5 and !!int 5 are "5". Only !!binary stands for other bytes than those written.
std::string key_text(const Mark& mark, const std::string& tag, const std::string& text) {
  const bool is_tagged = tag.size() > 1;
  const Value value = is_tagged ? read_scalar(mark, tag, text) : Value(text);
  return value.is_string() ? value.as_string() : text;
}

/// Builds a Value from the events of yaml-cpp's parser. Working on events instead of YAML::Node keeps each node's place, sees
/// keys that are written twice, and stops a document that is too deep before it is built.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(const SourceText& source) : source_(source) {}
  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {
    root_ = Value();
    anchors_.clear();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value value = Value().with_mark(mark_of(mark));
    if (expects_key()) throw ConfigError(value.mark(), "a key is empty or null; put it in quotes if it is meant as text");
    add(std::move(value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto anchored = anchors_.find(anchor);
    if (anchored == anchors_.end()) throw ConfigError(mark_of(mark), "this alias stands inside the node that it names");
    if (expects_key()) throw ConfigError(mark_of(mark), "an alias cannot be a key");
    size_.add(anchored->second, open_.size(), mark_of(mark));
    place(anchored->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override {
    const Mark place_of_scalar = mark_of(mark);
    if (expects_key()) {
      take_key({key_text(place_of_scalar, tag, text), place_of_scalar, text == "<<" && tag == "?"});
      return;
    }
    add(read_scalar(place_of_scalar, tag, text).with_mark(place_of_scalar), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Value(Value::List{}), mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Value(Value::Map{}), mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string name;
    Mark mark;
    bool is_merge = false;
  };
  struct Open {
    Value container;
    YAML::anchor_t anchor = 0;
    std::optional<Key> key;      // read, its value is not there yet
    std::set<std::string> keys;  // of a map, for a quick look-up
    std::vector<Value> merges;   // values of `<<`
  };

  Mark mark_of(const YAML::Mark& mark) const { return source_.mark_at(mark.line, mark.column); }
  bool expects_key() const { return !open_.empty() && open_.back().container.is_map() && !open_.back().key; }

  void open(Value container, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    container.set_mark(mark_of(mark));
    const bool is_usual = tag.empty() || tag == "?" || tag == "!";
    if (!is_usual && tag != format("{}{}", kTag, container.is_list() ? "seq" : "map")) throw_unknown_tag(container.mark(), tag);
    if (expects_key()) {
      // yaml-cpp also takes a list or map that is never closed for one.
      const char* bracket = container.is_list() ? "']'" : "'}'";
      throw ConfigError(container.mark(), format("a {} cannot be a key; is its {} missing?", container.type_name(), bracket));
    }
    size_.add(container, open_.size(), container.mark());
    Open opened;
    opened.container = std::move(container);
    opened.anchor = anchor;
    open_.push_back(std::move(opened));
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    for (const Value& merged : done.merges) merge(done, merged);
    remember(done.anchor, done.container);
    place(std::move(done.container));
  }

  void take_key(Key key) {
    Open& map = open_.back();
    if (!key.is_merge && !map.keys.insert(key.name).second) {
      const int first_line = map.container.at(key.name).key_mark().line;
      throw ConfigError(key.mark, format("the key {} is here for the second time; the first is in line {}",
                                         quoted_text(key.name), first_line));
    }
    map.key = std::move(key);
  }

  void add(Value value, YAML::anchor_t anchor) {
    size_.add(value, open_.size(), value.mark());
    remember(anchor, value);
    place(std::move(value));
  }

  /// Puts a finished node where it belongs.
  void place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.container.is_list()) {
      parent.container.push_back(std::move(value));
      return;
    }
    const Key key = *std::exchange(parent.key, std::nullopt);
    value.set_key_position(key.mark.line, key.mark.column);
    if (key.is_merge)
      parent.merges.push_back(std::move(value));
    else
      parent.container.as_map().emplace_back(key.name, std::move(value));
  }

  /// Keeps a node for the aliases that may follow.
  void remember(YAML::anchor_t anchor, const Value& value) {
    if (anchor == 0) return;
    size_.add(value, open_.size(), value.mark());
    anchors_.insert_or_assign(anchor, value);
  }

  /// Adds what a `<<` brings to the map: keys that are not there yet, earlier maps first.
  static void merge(Open& map, const Value& merged) {
    if (merged.is_list()) {
      for (const Value& each : merged.as_list()) {
        if (!each.is_map()) throw ConfigError(each.mark(), "'<<' takes maps only, got " + describe(each));
        merge(map, each);
      }
      return;
    }
    if (!merged.is_map()) throw ConfigError(merged.mark(), "'<<' takes a map or a list of maps, got " + describe(merged));
    for (const auto& [key, value] : merged.as_map()) {
      if (map.keys.insert(key).second) map.container.as_map().emplace_back(key, value);
    }
  }

  const SourceText& source_;
  Value root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  ConfigSize size_;  // so far, aliases unfolded and what is under anchors twice: anchors within anchors keep a copy each
};

void set_marks(Value& value, const Mark& mark) {
  value.set_mark(mark);
  value.set_key_position(0, 0);
  if (value.is_list()) {
    for (Value& element : value.as_list()) set_marks(element, mark);
  }
  if (value.is_map()) {
    for (auto& [key, element] : value.as_map()) set_marks(element, mark);
  }
}

/// Where a line has a tab before its content, which YAML refuses in many words; -1 without.
int tab_before_content(std::string_view line) {
  const std::size_t tab = line.substr(0, line.find_first_not_of(" \t-?")).find('\t');
  return tab == std::string_view::npos ? -1 : static_cast<int>(tab);
}

}  // namespace

Value read_yaml(const SourceText& source) {
  std::istringstream stream(source.text());
  YamlBuilder first(source), second(source);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(first)) return Value();
    if (parser.HandleNextDocument(second)) throw ConfigError(Mark{source.name()}, "has more than one YAML document");
  } catch (const YAML::Exception& error) {
    if (const int tab = tab_before_content(source.line(error.mark.line + 1)); tab >= 0) {
      throw ConfigError(source.mark_at(error.mark.line, tab), "YAML syntax: a tab, where lines are indented with spaces only");
    }
    const bool is_indented_by_itself = error.msg == YAML::ErrorMsg::END_OF_MAP || error.msg == YAML::ErrorMsg::END_OF_SEQ;
    throw ConfigError(
        source.mark_at(error.mark.line, error.mark.column),
        "YAML syntax: " + (is_indented_by_itself ? "the indentation of this line fits that of none above it" : error.msg));
  }
  return first.take();
}

Value read_yaml_file(const std::filesystem::path& file) { return read_yaml(SourceText::from_file(file)); }

Value read_yaml_argument(const std::string& name, const std::string& text) {
  Value value;
  try {
    value = read_yaml(SourceText(name, text));
  } catch (const ConfigError& error) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    const bool is_structured = begin != std::string::npos && std::string("[{\"'&").find(text[begin]) != std::string::npos;
    if (is_structured) throw ConfigError(Mark{name}, format("{}, in {}", error.message(), quoted_text(text)));
    value = Value(text);
  }
  set_marks(value, Mark{name});
  return value;
}

}  // namespace levin::cli
