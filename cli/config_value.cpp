#include "levin/cli/config_value.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "levin/cli/class_catalog.h"
#include "levin/cli/config_merge.h"
#include "levin/cli/run_config.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

/// Walks down a key. What is not given is the default of its option, as far as options are known.
class Walk {
 public:
  Walk(const Value& config, const std::string& key, const Mark& mark)
      : key_(key), mark_(mark), parts_(key_parts(key)), node_(config), options_(describe_options<RunConfig>()) {}

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
           (next_ > 1 && node_.is_string() && find_class(node_.as_string()).info != nullptr);
  }

  static std::vector<OptionInfo> options_of(const Value& spec) {
    const Value* class_path = spec.find("class_path");
    const bool is_named = class_path != nullptr && class_path->is_string();
    const ClassInfo* info = is_named ? find_class(class_path->as_string()).info : nullptr;
    return info != nullptr ? info->options : std::vector<OptionInfo>{};
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
    const auto is_it = [&](const OptionInfo& option) { return option.name == part; };
    const auto option = std::find_if(options_.begin(), options_.end(), is_it);
    if (option != options_.end() && !option->required) return option->default_value;
    if (option != options_.end()) throw ConfigError(mark_, format("{} is not given, and has no default", quoted_text(key_)));
    std::vector<std::string> known;
    for (const OptionInfo& each : options_) known.push_back(each.name);
    for (const auto& entry : node_.is_map() ? node_.as_map() : Value::Map{}) known.push_back(entry.first);
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
    if (const Value* class_path = value.find("class_path")) link(value, info_of(*class_path));
    return value;
  }

 private:
  static const ClassInfo* info_of(const Value& name) { return name.is_string() ? find_class(name.as_string()).info : nullptr; }

  static bool has_link(const Value& name) {
    const ClassInfo* info = info_of(name);
    const auto is_linked = [](const OptionInfo& option) { return !option.linked_to.empty(); };
    return info != nullptr && std::any_of(info->options.begin(), info->options.end(), is_linked);
  }

  void link(Value& spec, const ClassInfo* info) const {
    for (const OptionInfo& option : info != nullptr ? info->options : std::vector<OptionInfo>{}) {
      if (option.linked_to.empty()) continue;
      const Value* arguments = spec.find("init_args");
      if ((arguments != nullptr && arguments->contains(option.name)) || !leads_somewhere(config_, option.linked_to)) continue;
      Value reference("${" + option.linked_to + "}");
      reference.set_mark(spec.mark());
      spec["init_args"][option.name] = std::move(reference);
    }
  }

  const Value& config_;
};

}  // namespace

Value with_links(const Value& config) { return Links(config).apply(config, false); }

Value value_at(const Value& config, const std::string& key, const Mark& mark) { return Walk(config, key, mark).run(); }

}  // namespace levin::cli
