#include "levin/cli/references.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "levin/cli/config_merge.h"
#include "levin/cli/run_config.h"
#include "levin/cli/source_text.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

/// Walks down a key, which is written as an override writes it ("model.lr", "trainer.callbacks.0.patience"). What is not given
/// is the default of its option, as far as options are known; a key that leads nowhere is an error.
class Walk {
 public:
  Walk(const Value& config, const std::string& key, const Mark& mark)
      : key_(key), mark_(mark), parts_(split(key, ".")), node_(config), options_(describe_options<RunConfig>()) {}

  Value run() {
    for (next_ = 0; next_ < parts_.size(); ++next_) step(parts_[next_]);
    return node_;
  }

 private:
  void step(const std::string& part) {
    if (node_.is_list()) return enter_element(part);
    if (is_class()) {
      const Value spec = node_.is_string() ? class_only(node_) : node_;
      options_ = is_direct_key(parts_, part) ? std::vector<OptionInfo>{} : options_of(spec);
      const Value* arguments = is_direct_key(parts_, part) ? &spec : spec.find("init_args");
      node_ = arguments != nullptr ? Value(*arguments) : Value(Value::Map{});
    }
    enter_key(part);
  }

  bool is_class() const {
    return names_class(node_) || (next_ == 1 && is_component_section(parts_.front()) && !node_.is_null()) ||
           (next_ > 1 && node_.is_string() && class_of(node_) != nullptr);
  }

  void enter_element(const std::string& part) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error != std::errc() || end != part.data() + part.size() || index >= node_.size())
      throw ConfigError(mark_, format("there is no {}: the list has {} elements", quoted_text(key_), node_.size()));
    node_ = Value(node_.as_list()[index]);
    options_.clear();
  }

  void enter_key(const std::string& part) {
    if (const Value* found = node_.find(part)) {
      node_ = Value(*found);
    } else {
      node_ = default_of(part);
    }
    options_ = next_ == 0 && part == "trainer" ? describe_options<TrainerOptions>() : std::vector<OptionInfo>{};
  }

  Value default_of(const std::string& part) const {
    const OptionInfo* option = find_option(options_, part);
    if (option != nullptr && !option->required) return option->default_value;
    if (option != nullptr) throw ConfigError(mark_, format("{} is not given, and has no default", quoted_text(key_)));
    std::vector<std::string> known = names_of(options_);
    for (const auto& entry : node_.is_map() ? node_.as_map() : Value::Map{}) {
      if (!is_among(known, entry.first)) known.push_back(entry.first);
    }
    throw ConfigError(mark_, format("there is no {} to take a value from{}", quoted_text(key_),
                                    known.empty() ? "" : did_you_mean(part, known, "keys")));
  }

  const std::string& key_;
  const Mark& mark_;
  const std::vector<std::string> parts_;
  std::size_t next_ = 0;
  Value node_;                       ///< what the parts so far lead to
  std::vector<OptionInfo> options_;  ///< that it may have, where they are known
};

bool leads_somewhere(const Value& config, const std::string& key) {
  try {
    return !Walk(config, key, Mark{}).run().is_null();
  } catch (const ConfigError&) {
    return false;
  }
}

class Links {
 public:
  explicit Links(const Value& config) : config_(config) {}

  /// `is_class`: a text here names a class.
  Value apply(Value value, bool is_class) const {
    if (value.is_list()) {
      for (Value& element : value.as_list()) element = apply(std::move(element), is_class);
    }
    if (value.is_string() && is_class && has_link(value)) value = class_only(value);
    if (!value.is_map()) return value;
    for (auto& [key, part] : value.as_map()) {
      if (key != "class_path") part = apply(std::move(part), is_component_section(key) || key == "callbacks");
    }
    link(value);
    return value;
  }

 private:
  static bool has_link(const Value& name) {
    const std::vector<OptionInfo> options = options_of(name);
    return std::any_of(options.begin(), options.end(), [](const OptionInfo& option) { return !option.linked_to.empty(); });
  }

  void link(Value& spec) const {
    for (const OptionInfo& option : options_of(spec)) {
      if (option.linked_to.empty()) continue;
      const Value* arguments = spec.find("init_args");
      if ((arguments != nullptr && arguments->contains(option.name)) || !leads_somewhere(config_, option.linked_to)) continue;
      spec["init_args"][option.name] = Value("${" + option.linked_to + "}").with_mark(spec.mark());
    }
  }

  const Value& config_;
};

/// A scalar in a text: as YAML writes it, a text without its quotes.
std::string text_of(const Value& value, const Mark& mark, const std::string& reference) {
  if (value.is_string()) return value.as_string();
  if (value.is_list() || value.is_map())
    throw ConfigError(mark, format("{} is {}, which cannot be put into a text", quoted_text(reference), describe(value)));
  return scalar_text(value);
}

class Interpolation {
 public:
  explicit Interpolation(const Value& config) : config_(config) {}

  Value resolve(const Value& value) {
    ++level_;
    Value resolved = value;
    if (value.is_string()) {
      resolved = resolve_text(value);
    } else if (value.is_list()) {
      for (Value& element : resolved.as_list()) element = resolve(element);
    } else if (value.is_map()) {
      for (auto& entry : resolved.as_map()) entry.second = resolve(entry.second);
    }
    --level_;
    return resolved;
  }

 private:
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
      throw ConfigError(mark, format("one '${{' within another, in {}", quoted_text(reference)));
    for (const std::string_view prefix : {"env:", "oc.env:"}) {
      if (reference.starts_with(prefix)) return variable(reference.substr(prefix.size()), mark);
    }
    if (std::find(open_.begin(), open_.end(), reference) != open_.end())
      throw ConfigError(mark, format("refers to itself: {}, {}", join(open_), reference));
    auto known = found_.find(reference);
    if (known == found_.end()) {
      open_.push_back(reference);
      known = found_.emplace(reference, resolve(Walk(config_, reference, mark).run())).first;
      open_.pop_back();
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

  /// Errors about it are told where it was referred to.
  static Value marked_as(const Value& place, Value value) {
    value.set_mark(place.mark());
    value.set_key_position(place.key_mark().line, place.key_mark().column);
    return value;
  }

  const Value& config_;
  std::vector<std::string> open_;
  std::size_t level_ = 0;  ///< how many values the one that is resolved stands in, itself counted
  ConfigSize size_;        ///< of what references stand for
  std::map<std::string, Value> found_;
};

}  // namespace

Value with_links(const Value& config) { return Links(config).apply(config, false); }

Value interpolated(const Value& value, const Value& config) { return Interpolation(config).resolve(value); }

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
