#include "levin/cli/config_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <span>
#include <unordered_map>
#include <vector>

#include "levin/cli/lightning/from_lightning.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/cli/run_config.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/option_check.h"
#include "levin/core/config/option_type.h"
#include "levin/core/files/file_meant.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

fs::path file_named_by(const Value& name) {
  detail::check_text(name);
  const fs::path written = OptionType<fs::path>::read(name);
  const fs::path beside = fs::path(name.mark().file).parent_path() / written;
  std::error_code ignored;
  for (const fs::path& candidate : {beside, written}) {
    if (fs::is_regular_file(candidate, ignored)) return candidate;
  }
  throw ConfigError(name.mark(), format("there is no file {}: looked for '{}'{}", quoted_text(written.string()),
                                        join(detail::places_of_file(written, name.mark()), "' and '", &fs::path::native),
                                        file_meant(beside)));
}

/// Takes a key out of a map; null when it is not there.
Value taken(Value& map, const std::string& key) {
  const Value* found = map.find(key);
  Value value = found != nullptr ? *found : Value();
  std::erase_if(map.as_map(), [&](const auto& entry) { return entry.first == key; });
  return value;
}

void check_is_config(const Value& value, const fs::path& file) {
  if (value.is_map()) return;
  if (value.is_null()) throw ConfigError(Mark{file}, "the file is empty; it should hold trainer:, model: and data:");
  throw ConfigError(value.mark(), "a configuration is a map with trainer:, model: and data:, got " + describe(value));
}

/// Sections for another command than the one that runs, which are looked at no further than here.
void check_command_section(const Value& sections, const std::string& command) {
  const std::vector<std::string> known = section_names();
  const auto of_lightning = lightning_arguments_of(kTopKeys, "");
  ErrorCollector errors;
  for (const auto& [key, value] : sections.as_map()) {
    if (!is_among(known, key) && std::ranges::find(of_lightning, key, &LightningArgument::name) == of_lightning.end()) {
      errors.add(
          {value.key_mark(), format("{}: unknown key {}{}", command, quoted_text(key), did_you_mean(key, known, "sections"))});
    }
  }
  errors.throw_if_any();
}

/// `--model=model.yaml`: true when the value given for a section is the name of a YAML file.
bool is_section_file(const std::string& section, const Value& value) {
  if (!value.is_string() || (section != "trainer" && !is_component_section(section))) return false;
  const std::string extension = fs::path(value.as_string()).extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

/// What that file holds.
Value read_section_file(const Value& name) {
  const fs::path file = file_named_by(name);
  Value content = read_yaml_file(file);
  if (content.is_null()) throw ConfigError(Mark{file}, "the file is empty");
  return content;
}

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

/// `--trainer.logger.name=a` is for the logger that there is when nothing is said; of callbacks there is none.
void put_default(const std::string& flag_name, Value& flag) {
  if (flag_name == "logger" && (flag.is_null() || flag == Value(true))) flag = class_only(Value("CSVLogger"));
  if (flag_name == "callbacks" && flag.is_null()) flag = Value(Value::List{});
}

/// `--callbacks+=…`
void append(Value& node, const Value& value, const Mark& mark) {
  if (!node.is_list()) node = node.is_null() ? Value(Value::List{}) : Value(Value::List{std::move(node)});
  const Value::List added = value.is_list() ? value.as_list() : Value::List{value};
  node.as_list().insert(node.as_list().end(), added.begin(), added.end());
  node.set_mark(mark);
}

/// Takes the sections of one command out of a file, and those of the others.
Value take_command_sections(Value& config, const std::string& command) {
  Value sections(Value::Map{});
  for (const std::string& each : run_command_names()) {
    const Value* const found = config.find(each);
    if (found != nullptr && !found->is_map() && !found->is_null()) continue;  // an error, with all others
    Value taken_out = taken(config, each);
    if (taken_out.is_null()) continue;
    if (each == command)
      sections = std::move(taken_out);
    else
      check_command_section(taken_out, each);
  }
  return sections;
}

Value with_section_files(Value config) {
  for (auto& [section, value] : config.as_map()) {
    if (is_section_file(section, value)) value = read_section_file(value);
  }
  return with_levin_shape(std::move(config));
}

/// `open`: the files that include this one.
Value read_with_includes(const fs::path& file, const std::string& command, std::vector<fs::path>& open) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(file, ignored);
  if (std::find(open.begin(), open.end(), real) != open.end())
    throw ConfigError(Mark{file}, format("includes itself: {}", join(open, " includes ", &fs::path::native)));
  open.push_back(real);
  Value own = read_yaml_file(file);
  check_is_config(own, file);
  Value config(Value::Map{});
  Value included = taken(own, "include");
  if (!included.is_list() && !included.is_null()) included = Value(Value::List{std::move(included)});
  for (const Value& name : included.is_null() ? Value::List{} : included.as_list()) {
    if (!name.is_string()) detail::throw_wrong_type(name, "the name of a file, or a list of names");
    config = merged(std::move(config), read_with_includes(file_named_by(name), command, open));
  }
  const Value of_command = take_command_sections(own, command);
  config = merged(std::move(config), with_section_files(std::move(own)));
  config = merged(std::move(config), with_section_files(of_command));
  open.pop_back();
  return config;
}

}  // namespace

Value read_config_file(const fs::path& file, const std::string& command) {
  std::vector<fs::path> open;
  return read_with_includes(file, command, open);
}

bool names_class(const Value& value) { return value.is_map() && (value.contains("class_path") || value.contains("init_args")); }

Value class_only(const Value& name) { return Value(Value::Map{{"class_path", name}}).with_mark(name.mark()); }

bool is_direct_key(const std::vector<std::string>& key, const std::string& part) {
  if (part == "class_path" || part == "init_args") return true;
  return is_among(names_of(section_settings(key.front())), part);
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
    const bool is_direct = is_direct_key(parts, part);
    const auto name = [&] { return join(std::span(parts).first(next), "."); };
    if (next == 2 && parts[0] == "trainer" && !is_direct) put_default(parts[1], *node);
    if (node->is_list()) {
      node = &element_of(*node, part, name(), mark);
      if (is_index(part)) ++next;
      continue;
    }
    if (node->is_string()) *node = class_only(*node);
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
