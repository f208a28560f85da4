#include "levin/cli/config/misplaced_keys.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {
namespace {

void add_names(std::vector<std::string>& keys, const std::string& place, const std::vector<OptionInfo>& options) {
  for (const OptionInfo& option : options) keys.push_back(place + "." + option.name);
}

std::vector<std::string> all_keys(const Value& config) {
  std::vector<std::string> keys = section_names();
  add_names(keys, "trainer", describe_options<TrainerOptions>());
  for (const std::string& section : section_names()) {
    add_names(keys, section, section_settings(section));
    const Value* spec = config.find(section);
    if (spec == nullptr || !is_component_section(section)) continue;
    add_names(keys, section, options_of(*spec));
    // Of a class that is not known, what the configuration gives it.
    const Value* const arguments = class_of(*spec) == nullptr ? spec->find("init_args") : nullptr;
    for (const auto& entry : arguments != nullptr && arguments->is_map() ? arguments->as_map() : Value::Map{})
      keys.push_back(section + "." + entry.first);
  }
  const Value* trainer = config.find("trainer");
  for (const auto& [name, flag] : trainer != nullptr && trainer->is_map() ? trainer->as_map() : Value::Map{}) {
    const std::string place = "trainer." + name;
    add_names(keys, place, options_of(flag));
    for (std::size_t index = 0; flag.is_list() && index < flag.size(); ++index)
      add_names(keys, format("{}.{}", place, index), options_of(flag.as_list()[index]));
  }
  return keys;
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

std::vector<std::string> suggested_keys(const std::string& name, const Value& config) {
  constexpr std::size_t kMost = 4;
  const std::vector<std::string> all = all_keys(config);
  std::vector<std::string> parts;
  for (const std::string& key : all) parts.push_back(last_part(key));
  const std::string wrong = last_part(name);
  std::string nearest = nearest_name(wrong, parts);
  // Among the keys of all sections some name is always near.
  if (edit_distance(wrong, nearest) > 1) nearest.clear();
  const std::vector<std::function<bool(const std::string&)>> likely = {
      [&](const std::string& part) { return wrong.size() == part.size() && edit_distance(wrong, part) == 0; },
      [&](const std::string& part) { return part == nearest; },
      [&](const std::string& part) { return ("_" + part + "_").find("_" + wrong + "_") != std::string::npos; },
  };
  std::vector<std::string> keys;
  for (const auto& is_meant : likely) {
    for (std::size_t index = 0; index < all.size() && keys.size() < kMost; ++index) {
      if (is_meant(parts[index])) keys.push_back(all[index]);
    }
    if (!keys.empty()) break;
  }
  return keys;
}

namespace {

/// Whether a section or a class may stand at that key, and not one value alone.
bool takes_map(const std::string& key) {
  const std::string name = last_part(key);
  const std::vector<OptionInfo> flags = describe_options<TrainerOptions>();
  const OptionInfo* const flag = find_option(flags, name);
  return name == "trainer" || is_component_section(name) || (flag != nullptr && !kind_of(flag->schema).empty());
}

}  // namespace

void remove_misplaced(Value& map, const std::vector<std::string>& own, const Value& config) {
  if (!map.is_map()) return;
  constexpr int kMost = 20;  // more are of no use, and a hostile file may have a million
  ErrorCollector errors;
  int unknown = 0;
  const auto is_misplaced = [&](const auto& entry) {
    const std::string& key = entry.first;  // clang 14 captures no structured bindings
    const Value& value = entry.second;
    if (unknown == kMost || is_among(own, key)) return false;
    ++unknown;
    std::vector<std::string> meant;
    if (nearest_name(key, own).empty()) meant = suggested_keys(key, config);
    const bool has_parts = value.is_map() || value.is_list();
    std::erase_if(meant, [&](const std::string& other) {
      const std::string section = other.substr(0, other.find('.'));
      const bool is_same = last_part(other) == key;
      return (has_parts && !is_same && !takes_map(other)) ||
             (section != other && is_component_section(section) && !config.contains(section));
    });
    if (meant.empty()) return false;
    errors.add({value.key_mark(), is_among(meant, key)
                                      ? format("unknown key {} here: it belongs at the top of the file", quoted_text(key))
                                      : format("unknown key {}; did you mean '{}'?", quoted_text(key), join(meant, "' or '"))});
    return true;
  };
  std::erase_if(map.as_map(), is_misplaced);
  errors.throw_if_any();
}

}  // namespace levin::cli
