#include "levin/cli/config_merge.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <unordered_map>
#include <vector>

#include "levin/cli/class_catalog.h"
#include "levin/cli/config_reader.h"
#include "levin/cli/run_config.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

bool is_same_class(const Value& left, const Value& right) {
  if (left == right || !left.is_string() || !right.is_string()) return left == right;
  const ClassInfo* info = find_class(left.as_string()).info;
  return info != nullptr && info == find_class(right.as_string()).info;
}

// The class specification `base`, changed to another class.
Value with_class(Value base, const Value& class_path) {
  const Value* old_class = base.find("class_path");
  if (old_class != nullptr && !is_same_class(*old_class, class_path) && base.contains("init_args")) {
    Value kept(Value::Map{});
    kept.set_mark(base.at("init_args").mark());
    const ClassInfo* info = class_path.is_string() ? find_class(class_path.as_string()).info : nullptr;
    for (const OptionInfo& option : info != nullptr ? info->options : std::vector<OptionInfo>{}) {
      if (const Value* argument = base.at("init_args").find(option.name)) kept.as_map().emplace_back(option.name, *argument);
    }
    base["init_args"] = std::move(kept);
  }
  base["class_path"] = class_path;
  return base;
}

constexpr std::size_t kLongestKey = 1000;
constexpr std::size_t kDeepestConfig = 100;

// Levels of lists and maps; 0 for a scalar.
std::size_t depth_of(const Value& value) {
  std::size_t deepest = value.is_list() || value.is_map() ? 1 : 0;
  if (value.is_list()) {
    for (const Value& element : value.as_list()) deepest = std::max(deepest, 1 + depth_of(element));
  } else if (value.is_map()) {
    for (const auto& entry : value.as_map()) deepest = std::max(deepest, 1 + depth_of(entry.second));
  }
  return deepest;
}

/// Walks the parts of an override's key.
class OverrideWalk {
 public:
  OverrideWalk(const Override& given, Value value)
      : given_(given), mark_{given.name()}, value_(std::move(value)), parts_(key_parts(given.key)) {}

  void apply(Value& config) {
    // A level of the key is a level of the configuration, and each keeps the key's name for messages.
    if (given_.key.size() > kLongestKey || parts_.size() + depth_of(value_) > kDeepestConfig)
      throw ConfigError(
          mark_, format("the key leads too deep: it may have {} characters, and {} levels together with the value", kLongestKey,
                        kDeepestConfig));
    for (const std::string& part : parts_) {
      if (part.empty()) throw ConfigError(mark_, "the key has an empty part");
    }
    set(child(config, parts_[0]), 1);
  }

 private:
  void set(Value& node, std::size_t next) {
    if (next == parts_.size()) {
      finish(node);
      return;
    }
    const std::string& part = parts_[next];
    if (next == 2 && parts_[0] == "trainer" && !is_direct_key(parts_, part)) put_default(node);
    if (node.is_list()) {
      set(element(node, next), is_index(part) ? next + 1 : next);
      return;
    }
    if (node.is_string()) node = class_only(node);
    if (!node.is_null() && !node.is_map())
      throw ConfigError(mark_, format("'{}' is {}; it has no '{}'", joined(next), describe(node), part));
    const bool is_class = names_class(node) || (next == 1 && is_component_section(parts_[0]));
    Value& holder = is_class && !is_direct_key(parts_, part) ? child(node, "init_args") : node;
    set(child(holder, part), next + 1);
  }

  /// `--trainer.logger.name=a` is for the logger that there is when nothing is said; of callbacks there is none.
  void put_default(Value& flag) const {
    if (parts_[1] == "logger" && (flag.is_null() || flag == Value(true))) flag = class_only(Value("CSVLogger"));
    if (parts_[1] == "callbacks" && flag.is_null()) flag = Value(Value::List{});
  }

  void finish(Value& node) {
    if (!given_.append) {
      node = merged(std::move(node), value_);
      return;
    }
    if (!node.is_list()) node = node.is_null() ? Value(Value::List{}) : Value(Value::List{std::move(node)});
    if (value_.is_list())
      node.as_list().insert(node.as_list().end(), value_.as_list().begin(), value_.as_list().end());
    else
      node.push_back(value_);
    node.set_mark(mark_);
  }

  Value& child(Value& node, const std::string& key) {
    if (node.is_null()) {
      node = Value(Value::Map{});
      node.set_mark(mark_);
    }
    Value& found = node[key];
    if (found.is_null()) found.set_mark(mark_);
    return found;
  }

  Value& element(Value& list, std::size_t next) {
    const std::string& part = parts_[next];
    const std::string name = joined(next);
    if (list.size() == 0) throw ConfigError(mark_, format("'{}' is empty; add an element with --{}+=… first", name, name));
    if (!is_index(part)) return list.as_list().back();
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error != std::errc() || index >= list.size())
      throw ConfigError(mark_, format("'{}' has elements 0 to {}, no {}", name, list.size() - 1, part));
    return list.as_list()[index];
  }

  static bool is_index(const std::string& part) {
    return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  std::string joined(std::size_t count) const { return join(std::span(parts_).first(count), "."); }

  const Override& given_;
  const Mark mark_;
  const Value value_;
  const std::vector<std::string> parts_;
};

}  // namespace

bool names_class(const Value& value) { return value.is_map() && (value.contains("class_path") || value.contains("init_args")); }

Value class_only(const Value& name) {
  Value map(Value::Map{});
  map.set_mark(name.mark());
  map["class_path"] = name;
  return map;
}

std::vector<std::string> key_parts(const std::string& key) {
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool is_direct_key(const std::vector<std::string>& key, const std::string& part) {
  if (part == "class_path" || part == "init_args") return true;
  const auto settings = section_settings(key.front());
  return std::any_of(settings.begin(), settings.end(), [&](const OptionInfo& setting) { return setting.name == part; });
}

std::string Override::name() const {
  if (!variable.empty()) return "environment: " + variable;
  constexpr std::size_t kMostShown = 200;
  const bool is_long = key.size() > kMostShown;
  return format("command line: --{}{}", key.substr(0, kMostShown), is_long ? "…" : append ? "+" : "");
}

std::string Override::written() const {
  return variable.empty() ? format("--{}{}={}", key, append ? "+" : "", text) : format("{}={}", variable, text);
}

Value merged(Value base, const Value& overlay) {
  if (overlay.is_null() && base.is_map() && !names_class(base)) return base;
  if (overlay.is_string() && names_class(base)) return with_class(std::move(base), overlay);
  if (!overlay.is_map()) return overlay;
  if (base.is_string() && names_class(overlay)) base = class_only(base);
  if (!base.is_map()) return overlay;
  if (const Value* class_path = overlay.find("class_path")) base = with_class(std::move(base), *class_path);
  // Maps look their keys up one by one, which takes too long where both have many.
  Value::Map& entries = base.as_map();
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t place = 0; place < entries.size(); ++place) places.emplace(entries[place].first, place);
  for (const auto& [key, value] : overlay.as_map()) {
    const auto [found, is_new] = places.emplace(key, entries.size());
    if (is_new) entries.emplace_back(key, Value());
    Value& place = entries[found->second].second;
    place = merged(std::move(place), value);
  }
  return base;
}

void apply_override(Value& config, const Override& given) {
  Value value = read_yaml_argument(given.name(), given.text);
  if (is_section_file(given.key, value)) value = read_section_file(value);
  OverrideWalk(given, std::move(value)).apply(config);
}

}  // namespace levin::cli
