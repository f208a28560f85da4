#include "levin/cli/yaml_reader.h"

#include <yaml-cpp/binary.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/option_check.h"
#include "levin/core/files/file_meant.h"
#include "levin/core/files/paths.h"
#include "levin/core/version.h"
#include "levin/strategies/launch/run_inputs.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    throw ConfigError(format("there is no file '{}'{}{}", file, working_folder_of(file), file_meant(file)));
  if (fs::is_directory(status)) throw ConfigError(format("'{}' is a folder; a YAML file is needed", file));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ConfigError(format("cannot read '{}': {}", file, std::strerror(errno)));
  std::string text(ConfigSize::kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > ConfigSize::kMostBytes)
    throw ConfigError(format("'{}' is larger than 16 MiB; that is no configuration", file));
  return text;
}

constexpr std::size_t kMostShown = 20;
constexpr int kWidestLine = 160;

// The byte at which the character number `index` begins, or the end.
std::size_t byte_of_character(std::string_view line, int index) {
  std::size_t byte = 0;
  while (byte < line.size() && index > 0) {
    do {
      ++byte;
    } while (byte < line.size() && is_utf8_continuation(line[byte]));
    --index;
  }
  return byte;
}

std::string source_line_with_caret(const Mark& mark) {
  std::string line;
  try {
    line = SourceText::as_read(mark.file).line(mark.line);
  } catch (const ConfigError&) {
    return {};  // The file is no text, or gone: the message alone has to do.
  }
  // Of a long line, the part around the column.
  const int column = std::max(mark.column, 1);
  const int first = std::max(0, column - kWidestLine / 2);
  const std::size_t begin = byte_of_character(line, first);
  const std::size_t end = byte_of_character(line, first + kWidestLine);
  const std::string shown = line.substr(begin, end - begin);
  std::string below;
  for (const char c : shown.substr(0, byte_of_character(shown, column - 1 - first))) {
    if (!is_utf8_continuation(c)) below += c == '\t' ? '\t' : ' ';
  }
  const std::string number = std::to_string(mark.line);
  return format("\n  {} | {}\n  {} | {}^", number, shown, std::string(number.size(), ' '), below);
}

}  // namespace

SourceText::SourceText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.erase(0, 3);
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n')))
      line_starts_.push_back(i + 1);
  }
  check();
}

void SourceText::check() const {
  const auto is_control = [](unsigned char byte) {
    return (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f;
  };
  for (std::size_t i = 0; i < text_.size();) {
    const std::size_t length = utf8_length(std::string_view(text_).substr(i));
    if (length == 0 || is_control(text_[i])) {
      const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), i) - line_starts_.begin() - 1;
      throw ConfigError(mark_at(static_cast<int>(line), static_cast<int>(i - line_starts_[line])),
                        length == 0 ? "not a text file: this is no UTF-8" : "not a text file: it has a control character here");
    }
    i += length;
  }
}

SourceText SourceText::from_file(const fs::path& file) {
  const std::string name = file.string();
  RunInputs& inputs = RunInputs::instance();
  if (auto text = inputs.take(name)) return SourceText(name, std::move(*text));
  std::string text = content_of(file);
  inputs.keep(name, text);
  return SourceText(name, std::move(text));
}

SourceText SourceText::as_read(const fs::path& file) {
  const auto text = RunInputs::instance().find(file.string());
  return text ? SourceText(file.string(), *text) : from_file(file);
}

std::string_view SourceText::line(int number) const {
  if (number < 1 || static_cast<std::size_t>(number) > line_starts_.size()) return {};
  const std::size_t begin = line_starts_[number - 1];
  const std::size_t end = static_cast<std::size_t>(number) < line_starts_.size() ? line_starts_[number] : text_.size();
  std::string_view line = std::string_view(text_).substr(begin, end - begin);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

Mark SourceText::mark_at(int line_index, int byte_in_line) const {
  const std::string_view text = line(line_index + 1);
  const auto byte = static_cast<std::size_t>(byte_in_line);
  const std::size_t end = std::min(byte, text.size());
  if (last_.line != line_index) last_ = {line_index, 0, 0};
  for (; last_.byte < end; ++last_.byte) last_.characters += is_utf8_continuation(text[last_.byte]) ? 0 : 1;
  for (; last_.byte > end; --last_.byte) last_.characters -= is_utf8_continuation(text[last_.byte - 1]) ? 0 : 1;
  // Past the end of a line, bytes are all there is to count.
  return {name_, line_index + 1, static_cast<int>(last_.characters + byte - end) + 1};
}

void ConfigSize::add(const Value& value, std::size_t level, const Mark& mark) {
  const bool is_container = value.is_list() || value.is_map();
  if (level + (is_container ? 1 : 0) > kMostLevels)
    throw ConfigError(mark, format("nested deeper than {} levels", kMostLevels));
  ++values_;
  if (values_ > kMostValues) throw ConfigError(mark, format("more than {} values, references unfolded", kMostValues));
  if (value.is_string()) bytes_ += value.as_string().size();
  if (bytes_ > kMostBytes) throw ConfigError(mark, format("texts of more than {} bytes, references unfolded", kMostBytes));
  if (value.is_list()) {
    for (const Value& element : value.as_list()) add(element, level + 1, mark);
  } else if (value.is_map()) {
    for (const auto& entry : value.as_map()) add(entry.second, level + 1, mark);
  }
}

namespace {

/// The other version of levin that wrote a run's config.yaml, as its first line says; else "".
std::string other_version_of(const fs::path& file) {
  constexpr std::string_view kBegin = "# levin ";
  std::error_code ignored;
  std::string line;
  if (!fs::is_regular_file(file, ignored)) return "";
  std::ifstream stream(file);
  std::getline(stream, line);
  return line.starts_with(kBegin) && line.substr(kBegin.size()) != kVersion ? printable(line.substr(kBegin.size(), 40)) : "";
}

}  // namespace

std::vector<std::string> diagnostics(const ConfigError& error) {
  std::vector<ConfigError> errors = single_errors(error);
  std::stable_sort(errors.begin(), errors.end(), [](const ConfigError& left, const ConfigError& right) {
    return std::tie(left.mark().file, left.mark().line, left.mark().column) <
           std::tie(right.mark().file, right.mark().line, right.mark().column);
  });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(errors.size(), kMostShown); ++i) {
    texts.emplace_back(errors[i].what());
    if (errors[i].mark().line > 0) texts.back() += source_line_with_caret(errors[i].mark());
  }
  if (errors.size() > kMostShown) {
    const bool all_found = errors.size() < kMostConfigErrors;
    texts.push_back(format("{}{} more errors", all_found ? "and " : "and at least ", errors.size() - kMostShown));
  }
  std::set<std::string> files;
  for (const ConfigError& each : errors) {
    const std::string version = files.insert(each.mark().file).second ? other_version_of(each.mark().file) : "";
    if (version.empty()) continue;
    texts.push_back(format("{} was written by levin {}, and this is {}: CHANGELOG.md says what has changed since",
                           each.mark().file, version, kVersion));
  }
  return texts;
}

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

constexpr std::string_view kTag = "tag:yaml.org,2002:";

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
  const std::string type = tag.starts_with(kTag) ? tag.substr(kTag.size()) : "";
  if (type == "str") return text;
  if (type == "binary") {
    if (!is_base64(text)) throw ConfigError(mark, "this is no base64, as !!binary needs");
    const std::vector<unsigned char> bytes = YAML::DecodeBase64(text);
    return std::string(bytes.begin(), bytes.end());
  }
  if (!is_one_of(type, {"int", "float", "bool", "null"})) throw_unknown_tag(mark, tag);
  Value value = resolve_plain_scalar(text);
  if (type == "float" && value.is_int()) return value.as_double();
  if (value.type_name() != type) throw ConfigError(mark, "expected " + type + ", as the tag says, got " + describe(value));
  return value;
}

Value read_scalar(const Mark& mark, const std::string& tag, const std::string& text) {
  try {
    // yaml-cpp's tags: "?" for a plain scalar, "!" for a quoted one.
    if (tag == "?" || tag.empty()) {
      Value value = resolve_plain_scalar(text);
      return value.is_number() ? std::move(value).with_written(text) : value;
    }
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
    // "a:1" is a text, which no key on the next line fits.
    const std::string text = is_indented_by_itself
                                 ? "the indentation of this line fits that of none above it, or the line above lacks "
                                   "the space behind its ':'"
                             : error.msg == YAML::ErrorMsg::MAP_VALUE
                                 ? "no key can be here: does a line above lack the space behind its ':', or the end of a quote?"
                                 : error.msg;
    throw ConfigError(source.mark_at(error.mark.line, error.mark.column), "YAML syntax: " + text);
  }
  return first.take();
}

Value read_yaml_file(const std::filesystem::path& file) { return read_yaml(SourceText::from_file(file)); }

Value read_yaml_argument(const std::string& name, const std::string& text) {
  // YAML begins a block with them, which has no place in an argument, and takes a blank for nothing: they are delimiters.
  for (const char* const delimiter : {"|", ">", " ", "\t"})
    if (text == delimiter) return Value(text).with_mark(Mark{name});
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
