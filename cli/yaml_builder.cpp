#include "levin/cli/yaml_builder.h"

#include <yaml-cpp/binary.h>

#include <algorithm>
#include <utility>

#include "levin/cli/yaml_scalar.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

constexpr std::size_t kDeepest = 100;
constexpr std::size_t kMostNodes = 200'000;

constexpr const char* kTag = "tag:yaml.org,2002:";

[[noreturn]] void throw_unknown_tag(const Mark& mark, const std::string& tag) {
  throw ConfigError(mark, "unknown tag " + quoted_text(tag) +
                              "; YAML's own are known: !!str, !!binary, !!int, !!float, !!bool, !!null, !!map, !!seq");
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// yaml-cpp's decoder takes anything: it reads before its table on a byte of another alphabet, and padding anywhere.
bool is_base64(std::string text) {
  std::erase_if(text, is_blank);
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

}  // namespace

void YamlBuilder::OnDocumentStart(const YAML::Mark&) {
  root_ = Value();
  anchors_.clear();
}

void YamlBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  Value value;
  value.set_mark(mark_of(mark));
  if (expects_key()) throw ConfigError(value.mark(), "a key is empty or null; put it in quotes if it is meant as text");
  count(value, open_.size(), value.mark());
  remember(anchor, value);
  place(std::move(value));
}

void YamlBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const auto anchored = anchors_.find(anchor);
  if (anchored == anchors_.end()) throw ConfigError(mark_of(mark), "this alias stands inside the node that it names");
  if (expects_key()) throw ConfigError(mark_of(mark), "an alias cannot be a key");
  count(anchored->second, open_.size(), mark_of(mark));
  place(anchored->second);
}

void YamlBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) {
  const Mark place_of_scalar = mark_of(mark);
  if (expects_key()) {
    take_key({key_text(place_of_scalar, tag, text), place_of_scalar, text == "<<" && tag == "?"});
    return;
  }
  Value value = read_scalar(place_of_scalar, tag, text);
  value.set_mark(place_of_scalar);
  count(value, open_.size(), place_of_scalar);
  remember(anchor, value);
  place(std::move(value));
}

void YamlBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                                  YAML::EmitterStyle::value) {
  if (!tag.empty() && tag != "?" && tag != "!" && tag != format("{}seq", kTag)) throw_unknown_tag(mark_of(mark), tag);
  open(Value(Value::List{}), mark, anchor);
}

void YamlBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) {
  if (!tag.empty() && tag != "?" && tag != "!" && tag != format("{}map", kTag)) throw_unknown_tag(mark_of(mark), tag);
  open(Value(Value::Map{}), mark, anchor);
}

void YamlBuilder::open(Value container, const YAML::Mark& mark, YAML::anchor_t anchor) {
  container.set_mark(mark_of(mark));
  if (expects_key()) {
    // yaml-cpp also takes a list or map that is never closed for one.
    const char* bracket = container.is_list() ? "']'" : "'}'";
    throw ConfigError(container.mark(), format("a {} cannot be a key; is its {} missing?", container.type_name(), bracket));
  }
  count(container, open_.size(), container.mark());
  Open opened;
  opened.container = std::move(container);
  opened.anchor = anchor;
  open_.push_back(std::move(opened));
}

void YamlBuilder::close() {
  Open done = std::move(open_.back());
  open_.pop_back();
  for (const Value& merged : done.merges) merge(done, merged);
  remember(done.anchor, done.container);
  place(std::move(done.container));
}

void YamlBuilder::take_key(Key key) {
  Open& map = open_.back();
  if (!key.is_merge && !map.keys.insert(key.name).second) {
    const int first_line = map.container.at(key.name).key_mark().line;
    throw ConfigError(
        key.mark, format("the key {} is here for the second time; the first is in line {}", quoted_text(key.name), first_line));
  }
  map.key = std::move(key);
}

void YamlBuilder::place(Value value) {
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

void YamlBuilder::remember(YAML::anchor_t anchor, const Value& value) {
  if (anchor == 0) return;
  count(value, open_.size(), value.mark());
  anchors_.insert_or_assign(anchor, value);
}

void YamlBuilder::merge(Open& map, const Value& merged) {
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

void YamlBuilder::count(const Value& value, std::size_t depth, const Mark& mark) {
  if (++nodes_ > kMostNodes) {
    throw ConfigError(mark, format("the document has more than {} nodes, aliases unfolded", kMostNodes));
  }
  const bool is_container = value.is_list() || value.is_map();
  if (is_container && depth >= kDeepest) throw ConfigError(mark, format("nested deeper than {} levels", kDeepest));
  if (value.is_list()) {
    for (const Value& element : value.as_list()) count(element, depth + 1, mark);
  } else if (value.is_map()) {
    for (const auto& [key, element] : value.as_map()) count(element, depth + 1, mark);
  }
}

}  // namespace levin::cli
