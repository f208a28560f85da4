#include "levin/cli/config_reader.h"

#include <algorithm>
#include <vector>

#include "levin/cli/config_merge.h"
#include "levin/cli/run_config.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/option_check.h"
#include "levin/core/options/option_type.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDeepestInclude = 20;

fs::path file_named_by(const Value& name) {
  detail::check_text(name);
  const fs::path written = OptionType<fs::path>::read(name);
  const fs::path beside = fs::path(name.mark().file).parent_path() / written;
  std::error_code ignored;
  for (const fs::path& candidate : {beside, written}) {
    if (fs::is_regular_file(candidate, ignored)) return candidate;
  }
  throw ConfigError(name.mark(), format("there is no file {}: looked for '{}'", quoted_text(written.string()),
                                        join(detail::places_of_file(written, name.mark()), "' and '", &fs::path::native)));
}

/// Takes a key out of a map; null when it is not there.
Value taken(Value& map, const std::string& key) {
  Value::Map& entries = map.as_map();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == key; });
  if (found == entries.end()) return Value();
  Value value = std::move(found->second);
  entries.erase(found);
  return value;
}

void check_is_config(const Value& value, const fs::path& file) {
  if (value.is_map()) return;
  if (value.is_null()) throw ConfigError(Mark{file}, "the file is empty; it should hold trainer:, model: and data:");
  throw ConfigError(value.mark(), "a configuration is a map with trainer:, model: and data:, got " + describe(value));
}

/// Sections for one command. Those of other commands are looked at no further than here.
void check_command_section(const Value& sections, const std::string& command) {
  if (!sections.is_map())
    throw ConfigError(sections.mark(), format("'{}:' is a map of sections, got {}", command, describe(sections)));
  const std::vector<std::string> known = section_names();
  for (const auto& [key, value] : sections.as_map()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw ConfigError(value.key_mark(),
                        format("{}: unknown key {}{}", command, quoted_text(key), did_you_mean(key, known, "sections")));
  }
}

/// Reads files that may include others.
class Reader {
 public:
  explicit Reader(const std::string& command) : command_(command) {}

  Value read(const fs::path& file) {
    enter(file);
    Value own = read_yaml_file(file);
    check_is_config(own, file);
    Value config = included(taken(own, "include"));
    const Value of_command = take_command_sections(own);
    config = merged(std::move(config), with_section_files(std::move(own)));
    config = merged(std::move(config), with_section_files(of_command));
    open_.pop_back();
    return config;
  }

 private:
  void enter(const fs::path& file) {
    std::error_code ignored;
    const fs::path real = fs::weakly_canonical(file, ignored);
    if (std::find(open_.begin(), open_.end(), real) != open_.end())
      throw ConfigError(Mark{file}, format("includes itself: {}",
                                           join(open_, " includes ", [](const fs::path& each) { return each.string(); })));
    if (open_.size() == kDeepestInclude)
      throw ConfigError(Mark{file}, format("files include one another more than {} deep", kDeepestInclude));
    open_.push_back(real);
  }

  Value included(const Value& names) {
    Value config(Value::Map{});
    if (names.is_null()) return config;
    const Value::List list = names.is_list() ? names.as_list() : Value::List{names};
    for (const Value& name : list) {
      if (!name.is_string()) detail::throw_wrong_type(name, "the name of a file, or a list of names");
      config = merged(std::move(config), read(file_named_by(name)));
    }
    return config;
  }

  Value take_command_sections(Value& config) {
    Value sections(Value::Map{});
    for (const std::string& command : run_command_names()) {
      if (!config.contains(command)) continue;
      Value found = taken(config, command);
      if (found.is_null()) continue;
      check_command_section(found, command);
      if (command == command_) sections = std::move(found);
    }
    return sections;
  }

  static Value with_section_files(Value config) {
    for (auto& [section, value] : config.as_map()) {
      if (is_section_file(section, value)) value = read_section_file(value);
    }
    return config;
  }

  const std::string& command_;
  std::vector<fs::path> open_;
};

}  // namespace

Value read_config_file(const fs::path& file, const std::string& command) { return Reader(command).read(file); }

bool is_section_file(const std::string& section, const Value& value) {
  if (!value.is_string() || (section != "trainer" && !is_component_section(section))) return false;
  const std::string extension = fs::path(value.as_string()).extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

Value read_section_file(const Value& name) {
  const fs::path file = file_named_by(name);
  Value content = read_yaml_file(file);
  if (content.is_null()) throw ConfigError(Mark{file}, "the file is empty");
  return content;
}

}  // namespace levin::cli
