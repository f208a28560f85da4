#include "levin/cli/config/config_merge.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/config_file.h"
#include "levin/cli/config/config_size.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/cli/lightning/from_lightning.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

// The class specification `base`, changed to another class.
Value with_class(Value base, const Value& class_path) {
  const Value* old_class = base.find("class_path");
  const ClassInfo* info = class_of(class_path);
  const bool is_same = old_class != nullptr && (*old_class == class_path || (info != nullptr && info == class_of(*old_class)));
  if (old_class != nullptr && !is_same && base.contains("init_args")) {
    Value kept = Value(Value::Map{}).with_mark(base.at("init_args").mark());
    for (const OptionInfo& option : options_of(class_path)) {
      if (const Value* argument = base.at("init_args").find(option.name)) kept.as_map().emplace_back(option.name, *argument);
    }
    base["init_args"] = std::move(kept);
  }
  base["class_path"] = class_path;
  return base;
}

bool is_index(const std::string& part) {
  return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The element that a part of a key leads to, the last one unless it is a number. `name`: of the list.
Value& element_of(Value& list, const std::string& part, const std::string& name, const Mark& mark) {
  if (list.size() == 0) throw ConfigError(mark, format("'{}' is empty; add an element with --{}+=… first", name, name));
  if (!is_index(part)) return list.as_list().back();
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (error != std::errc() || index >= list.size())
    throw ConfigError(mark, format("'{}' has elements 0 to {}, no {}", name, list.size() - 1, part));
  return list.as_list()[index];
}

Value& child_of(Value& node, const std::string& key, const Mark& mark) {
  if (node.is_null()) node = Value(Value::Map{}).with_mark(mark);
  Value& found = node[key];
  if (found.is_null()) found.set_mark(mark);
  return found;
}

/// `--trainer.logger.name=a` is for the default logger; there is no default callback.
void set_default(const std::string& flag_name, Value& flag) {
  if (flag_name == "logger" && (flag.is_null() || flag == Value(true))) flag = class_spec(Value("CSVLogger"));
  if (flag_name == "callbacks" && flag.is_null()) flag = Value(Value::List{});
}

/// `--callbacks+=…`
void append(Value& node, const Value& value, const Mark& mark) {
  if (!node.is_list()) node = node.is_null() ? Value(Value::List{}) : Value(Value::List{std::move(node)});
  const Value::List added = value.is_list() ? value.as_list() : Value::List{value};
  node.as_list().insert(node.as_list().end(), added.begin(), added.end());
  node.set_mark(mark);
}

}  // namespace

bool names_class(const Value& value) { return value.is_map() && (value.contains("class_path") || value.contains("init_args")); }

Value class_spec(const Value& name) { return Value(Value::Map{{"class_path", name}}).with_mark(name.mark()); }

bool is_spec_key(const std::vector<std::string>& key, const std::string& part) {
  if (part == "class_path" || part == "init_args") return true;
  return is_among(names_of(section_settings(key.front())), part);
}

Value merged(Value base, const Value& overlay) {
  if (overlay.is_null() && base.is_map() && !names_class(base)) return base;
  if (overlay.is_string() && names_class(base)) return with_class(std::move(base), overlay);
  if (!overlay.is_map()) return overlay;
  if (base.is_string() && names_class(overlay)) base = class_spec(base);
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
  const Mark mark{given.name()};
  const std::vector<std::string> parts = split(given.key, ".");
  Value value = read_yaml_argument(given.name(), given.text);
  if (is_section_file(given.key, value)) value = read_section_file(value);
  value = with_levin_shape(given.key, std::move(value));
  ConfigSize().add(value, parts.size(), mark);
  if (is_among(parts, "")) throw ConfigError(mark, "the key has an empty part");
  Value* node = &child_of(config, parts[0], mark);
  for (std::size_t next = 1; next < parts.size();) {
    const std::string& part = parts[next];
    const bool is_direct = is_spec_key(parts, part);
    const auto name = [&] { return join(std::span(parts).first(next), "."); };
    if (next == 2 && parts[0] == "trainer" && !is_direct) set_default(parts[1], *node);
    if (node->is_list()) {
      node = &element_of(*node, part, name(), mark);
      if (is_index(part)) ++next;
      continue;
    }
    if (node->is_string()) *node = class_spec(*node);
    if (!node->is_null() && !node->is_map())
      throw ConfigError(mark, format("'{}' is {}; it has no '{}'", name(), describe(*node), part));
    const bool is_class = names_class(*node) || (next == 1 && is_component_section(parts[0]));
    if (is_class && !is_direct) node = &child_of(*node, "init_args", mark);
    node = &child_of(*node, part, mark);
    ++next;
  }
  if (given.append) {
    append(*node, value, mark);
  } else {
    *node = merged(std::move(*node), value);
  }
}

}  // namespace levin::cli
