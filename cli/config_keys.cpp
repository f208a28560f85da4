#include "levin/cli/config_keys.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "levin/cli/class_catalog.h"
#include "levin/cli/run_config.h"
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
    if (spec != nullptr && is_component_section(section)) add_names(keys, section, options_of(*spec));
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

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> names_of(const std::vector<OptionInfo>& options) {
  std::vector<std::string> names;
  for (const OptionInfo& option : options) names.push_back(option.name);
  return names;
}

std::vector<std::string> keys_meant_by(const std::string& name, const Value& config) {
  constexpr std::size_t kMost = 4;
  const std::vector<std::string> all = all_keys(config);
  std::vector<std::string> parts;
  for (const std::string& key : all) parts.push_back(last_part(key));
  const std::string wrong = last_part(name);
  const std::string nearest = nearest_name(wrong, parts);
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

void take_misplaced(Value& map, const std::vector<std::string>& own, const Value& config) {
  if (!map.is_map()) return;
  constexpr int kMost = 20;  // nobody reads more, and a hostile file may have a million
  ErrorCollector errors;
  int unknown = 0;
  const auto is_misplaced = [&](const auto& entry) {
    const auto& [key, value] = entry;
    if (unknown == kMost || is_among(own, key)) return false;
    ++unknown;
    const std::vector<std::string> meant =
        nearest_name(key, own).empty() ? keys_meant_by(key, config) : std::vector<std::string>{};
    if (meant.empty()) return false;
    errors.add({value.key_mark(), format("unknown key {}; did you mean '{}'?", quoted_text(key), join(meant, "' or '"))});
    return true;
  };
  std::erase_if(map.as_map(), is_misplaced);
  errors.throw_if_any();
}

}  // namespace levin::cli
