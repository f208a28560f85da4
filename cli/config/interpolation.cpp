#include "levin/cli/config/interpolation.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/config_merge.h"
#include "levin/cli/config/config_size.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {
namespace {

/// The value at a key, which is written as an override writes it ("model.lr", "trainer.callbacks.0.patience"). What is not
/// given is the default of its option, as far as options are known; a key that leads nowhere is an error.
Value value_at(const Value& config, const std::string& key, const Mark& mark) {
  const std::vector<std::string> parts = split(key, ".");
  Value node = config;                                              // what the parts so far lead to
  std::vector<OptionInfo> options = describe_options<RunConfig>();  // that it may have, where they are known
  for (std::size_t next = 0; next < parts.size(); ++next) {
    const std::string& part = parts[next];
    if (node.is_list()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= node.size())
        throw ConfigError(mark, format("there is no {}: the list has {} elements", quoted_text(key), node.size()));
      node = Value(node.as_list()[index]);
      options.clear();
      continue;
    }
    const bool is_class = names_class(node) || (next == 1 && is_component_section(parts.front()) && !node.is_null()) ||
                          (next > 1 && node.is_string() && class_of(node) != nullptr);
    if (is_class) {
      const bool is_direct = is_spec_key(parts, part);
      options = is_direct ? std::vector<OptionInfo>{} : options_of(node);
      if (node.is_string()) node = class_spec(node);
      if (!is_direct) node = node.contains("init_args") ? Value(node.at("init_args")) : Value(Value::Map{});
    }
    const Value* found = node.find(part);
    const OptionInfo* option = found == nullptr ? find_option(options, part) : nullptr;
    if (option != nullptr && option->required)
      throw ConfigError(mark, format("{} is not given, and has no default", quoted_text(key)));
    if (found == nullptr && option == nullptr) {
      std::vector<std::string> known = names_of(options);
      for (const auto& [name, value] : node.is_map() ? node.as_map() : Value::Map{}) {
        if (!is_among(known, name)) known.push_back(name);
      }
      throw ConfigError(mark, format("there is no {} to take a value from{}", quoted_text(key),
                                     known.empty() ? "" : did_you_mean(part, known, "keys")));
    }
    node = Value(found != nullptr ? *found : option->default_value);
    options = next == 0 && part == "trainer" ? describe_options<TrainerOptions>() : std::vector<OptionInfo>{};
  }
  return node;
}

bool leads_somewhere(const Value& config, const std::string& key) {
  try {
    return !value_at(config, key, Mark{}).is_null();
  } catch (const ConfigError&) {
    return false;
  }
}

/// `is_class`: a text here names a class.
Value linked(const Value& value, bool is_class, const Value& config) {
  Value result = value.is_string() && is_class ? class_spec(value) : value;
  if (result.is_list()) {
    for (Value& element : result.as_list()) element = linked(element, is_class, config);
  }
  if (!result.is_map()) return result;
  for (auto& [key, part] : result.as_map()) {
    if (key != "class_path") part = linked(part, is_component_section(key) || key == "callbacks", config);
  }
  for (const OptionInfo& option : options_of(result)) {
    const Value* arguments = result.find("init_args");
    const Value* const given = arguments != nullptr ? arguments->find(option.name) : nullptr;
    if (option.linked_to.empty() || (given != nullptr && !given->is_null()) || !leads_somewhere(config, option.linked_to))
      continue;
    result["init_args"][option.name] = Value("${" + option.linked_to + "}").with_mark(result.mark());
  }
  return value.is_string() && !result.contains("init_args") ? value : result;
}

/// A scalar in a text: as YAML writes it, a text without its quotes.
std::string text_of(const Value& value, const Mark& mark, const std::string& reference) {
  if (value.is_string()) return value.as_string();
  if (value.is_list() || value.is_map())
    throw ConfigError(mark, format("{} is {}, which cannot be put into a text", quoted_text(reference), describe(value)));
  return value.written().empty() ? scalar_text(value) : std::string(value.written());
}

class Interpolation {
 public:
  Interpolation(const Value& config, ErrorCollector* errors) : config_(config), errors_(errors) {}

  Value resolve(const Value& value) {
    ++level_;
    Value resolved = value;
    if (value.is_string()) {
      resolved = errors_ != nullptr && resolving_.empty() ? resolved_or_null(value) : resolve_text(value);
    } else if (value.is_list()) {
      for (Value& element : resolved.as_list()) element = resolve(element);
    } else if (value.is_map()) {
      for (auto& entry : resolved.as_map()) entry.second = resolve(entry.second);
    }
    --level_;
    return resolved;
  }

 private:
  /// What fails within a reference fails for each that refers to it, too, and is said once.
  Value resolved_or_null(const Value& value) {
    const std::size_t level = level_;
    try {
      return resolve_text(value);
    } catch (const ConfigError& error) {
      const bool is_own = error.mark().str() == value.mark().str();  // others that refer there have their own position
      for (const std::string& reference : is_own ? std::vector<std::string>{} : resolving_) failed_.emplace(reference, error);
      resolving_.clear();
      level_ = level;
      if (reported_.insert(error.what()).second) errors_->add(error);
      return Value().with_mark(Mark(value.mark()));
    }
  }

  Value resolve_text(const Value& value) {
    const std::string& text = value.as_string();
    if (text.find("${") == std::string::npos) return value;
    std::string result;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t begin = text.find("${", at);
      if (begin != std::string::npos && begin > at && text[begin - 1] == '\\') {
        result.append(text, at, begin - 1 - at).append("${");
        at = begin + 2;
        continue;
      }
      result.append(text, at, begin == std::string::npos ? begin : begin - at);
      if (begin == std::string::npos) break;
      const std::size_t end = text.find('}', begin);
      if (end == std::string::npos) throw ConfigError(value.mark(), "'${' has no '}' in " + quoted_text(text));
      const std::string reference = text.substr(begin + 2, end - begin - 2);
      const Value found = marked_as(value, look_up(reference, value.mark()));
      if (begin == 0 && end + 1 == text.size()) return found;
      result += text_of(found, value.mark(), reference);
      at = end + 1;
    }
    Value resolved(std::move(result));
    size_.add(resolved, level_, value.mark());
    return marked_as(value, std::move(resolved));
  }

  Value look_up(const std::string& reference, const Mark& mark) {
    if (reference.find("${") != std::string::npos)
      throw ConfigError(mark, format("one '${{' within another, in {}: write its value", quoted_text(reference)));
    for (const std::string_view prefix : {"env:", "oc.env:"}) {
      if (reference.starts_with(prefix)) return variable(reference.substr(prefix.size()), mark);
    }
    const std::size_t colon = reference.find(':');
    if (colon != std::string::npos)
      throw ConfigError(mark, format("levin has no resolver for ${{{}:…}}: write its value, or ${{env:NAME,DEFAULT}}",
                                     printable(reference.substr(0, colon))));
    if (std::find(resolving_.begin(), resolving_.end(), reference) != resolving_.end())
      throw ConfigError(mark, format("refers to itself: {}, {}", join(resolving_), reference));
    if (const auto failed = failed_.find(reference); failed != failed_.end()) throw ConfigError(failed->second);
    auto known = found_.find(reference);
    if (known == found_.end()) {
      resolving_.push_back(reference);
      known = found_.emplace(reference, resolve(value_at(config_, reference, mark))).first;
      resolving_.pop_back();
    }
    size_.add(known->second, level_ - 1, mark);
    return known->second;
  }

  static Value variable(const std::string& reference, const Mark& mark) {
    const std::size_t comma = reference.find(',');
    const std::string name = reference.substr(0, comma);
    const char* text = std::getenv(name.c_str());
    if (text == nullptr && comma == std::string::npos)
      throw ConfigError(mark, format("the environment variable {} is not set; ${{env:{},DEFAULT}} gives it a default",
                                     quoted_text(name), name));
    return read_yaml_argument("environment: " + name, text != nullptr ? text : reference.substr(comma + 1));
  }

  /// Errors about it name the reference.
  static Value marked_as(const Value& place, Value value) {
    value.set_mark(place.mark());
    value.set_key_position(place.key_mark().line, place.key_mark().column);
    return value;
  }

  const Value& config_;
  ErrorCollector* errors_;  ///< of all that fails; nullptr: the first is thrown
  std::set<std::string> reported_;
  std::map<std::string, ConfigError> failed_;  ///< references, and what is wrong with them
  std::vector<std::string> resolving_;
  std::size_t level_ = 0;  ///< how many values the one that is resolved stands in, itself counted
  ConfigSize size_;        ///< of what references stand for
  std::map<std::string, Value> found_;
};

}  // namespace

Value with_links(const Value& config) { return linked(config, /*is_class=*/false, config); }

Value interpolated(const Value& value, const Value& config, ErrorCollector* errors) {
  return Interpolation(config, errors).resolve(value);
}

Value escaped(Value value) {
  if (value.is_string()) {
    std::string text = value.as_string();
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3)) text.insert(at, 1, '\\');
    return text;
  }
  if (value.is_list()) {
    for (Value& element : value.as_list()) element = escaped(std::move(element));
  } else if (value.is_map()) {
    for (auto& entry : value.as_map()) entry.second = escaped(std::move(entry.second));
  }
  return value;
}

}  // namespace levin::cli
