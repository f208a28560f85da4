#include "levin/cli/lightning/from_lightning.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/config_merge.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

/// What a text is that jsonargparse writes for an object.
constexpr std::string_view kNotWritten = "Unable to serialize instance ";

bool is_slip_of_class_keys(const std::string& key) {
  return !nearest_name(key, {"class_path", "init_args", "dict_kwargs"}).empty();
}

/// A section whose keys are all arguments.
bool has_arguments_alone(const Value& section) {
  return section.is_map() && section.size() > 0 &&
         std::ranges::none_of(section.as_map(), [](const auto& entry) { return is_slip_of_class_keys(entry.first); });
}

/// A value that replaces another one, with its position.
Value as_marked(const Value& other, Value value) {
  value.set_mark(other.mark());
  value.set_key_position(other.key_mark().line, other.key_mark().column);
  return value;
}

/// The arguments below init_args, and what a section has next to them.
Value with_init_args(const std::string& section, Value arguments) {
  const std::vector<std::string> settings = names_of(section_settings(section));
  Value::Map taken;
  std::erase_if(arguments.as_map(), [&](const auto& entry) {
    const bool is_setting = is_among(settings, entry.first);
    if (is_setting) taken.push_back(entry);
    return is_setting;
  });
  Value result = as_marked(arguments, Value(std::move(taken)));
  if (arguments.size() > 0) result["init_args"] = std::move(arguments);
  return result;
}

/// Hydra's `{_target_: Adam, lr: 0.1}` as `{class_path: Adam, init_args: {lr: 0.1}}`, wherever it stands.
Value without_targets(const std::string& key, Value value) {
  if (value.is_list()) {
    for (Value& element : value.as_list()) element = without_targets(key, std::move(element));
  }
  if (!value.is_map()) return value;
  for (auto& [name, part] : value.as_map()) part = without_targets(name, std::move(part));
  const Value* const target = value.find("_target_");
  if (target == nullptr || !target->is_string() || names_class(value)) return value;
  const Value name = *target;
  std::erase_if(value.as_map(), [](const auto& entry) {
    return is_among({"_target_", "_partial_", "_convert_", "_recursive_"}, entry.first);
  });
  Value named = with_init_args(key, std::move(value));
  named.as_map().emplace(named.as_map().begin(), "class_path", name);
  return named;
}

bool is_class_or_none(const std::pair<std::string, Value>& entry) {
  return entry.second.is_null() || entry.second.contains("class_path");
}

/// The flags of a Trainer that is named as a class is (of another class than Trainer, with its name), and callbacks and loggers
/// that stand under names, as Hydra composes them.
Value with_flags(Value trainer) {
  const Value* const name = trainer.find("class_path");
  if (name != nullptr && name->is_string() && trainer.size() <= 2) {
    const Value of_another = without_module(name->as_string()) == "Trainer" ? Value() : *name;
    trainer = as_marked(trainer, trainer.contains("init_args") ? Value(trainer.at("init_args")) : Value(Value::Map{}));
    if (trainer.is_map() && !of_another.is_null()) trainer["class_path"] = of_another;
  }
  for (const char* list : {"callbacks", "logger"}) {
    Value* const found = trainer.find(list);
    if (found == nullptr || !found->is_map() || found->size() == 0) continue;
    if (names_class(*found) || !std::ranges::all_of(found->as_map(), is_class_or_none)) continue;
    Value::List classes;
    for (const auto& [key, spec] : found->as_map()) {
      if (!spec.is_null()) classes.push_back(spec);
    }
    *found = as_marked(*found, Value(std::move(classes)));
  }
  return trainer;
}

/// Merges `dict_kwargs` into init_args, whose own values win, wherever a class is named.
Value without_dict_kwargs(Value value) {
  if (value.is_list()) {
    for (Value& element : value.as_list()) element = without_dict_kwargs(std::move(element));
  }
  if (!value.is_map()) return value;
  for (auto& entry : value.as_map()) entry.second = without_dict_kwargs(std::move(entry.second));
  const Value* const found = value.find("dict_kwargs");
  const bool names_class = value.contains("class_path") || value.contains("init_args");
  if (found == nullptr || !names_class || !(found->is_map() || found->is_null())) return value;
  const Value more = *found;
  std::erase_if(value.as_map(), [](const auto& entry) { return entry.first == "dict_kwargs"; });
  if (more.is_null()) return value;
  Value& arguments = value["init_args"];
  if (arguments.is_null()) arguments = Value(Value::Map{}).with_mark(Mark(more.mark()));
  if (!arguments.is_map()) return value;
  // Maps look their keys up one by one, which takes too long where both have many.
  std::unordered_set<std::string> given;
  for (const auto& entry : arguments.as_map()) given.insert(entry.first);
  for (const auto& entry : more.as_map()) {
    if (!given.contains(entry.first)) arguments.as_map().push_back(entry);
  }
  return value;
}

bool are_same(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return left.as_double() == right.as_double();
  if (left.is_map() && right.is_map()) {
    return left.size() == right.size() && std::ranges::all_of(left.as_map(), [&](const auto& entry) {
             const Value* const other = right.find(entry.first);
             return other != nullptr && are_same(entry.second, *other);
           });
  }
  return left == right;
}

class Translator {
 public:
  explicit Translator(ErrorCollector& errors) : errors_(errors) {}

  void translate(Value& config) {
    take_arguments(kTopKeys, "", config);
    take_steps(config);
    take_own_sections(config);
    for (const OptionInfo& section : describe_options<RunConfig>()) {
      Value* const value = config.find(section.name);
      if (value == nullptr) continue;
      const Naming naming(*this, section.name);
      respell(kTopKeys, "", section.name, *value);
      if (section.name == "trainer") {
        translate_options(kTrainerFlags, "", describe_options<TrainerOptions>(), *value);
      } else if (is_component_section(section.name)) {
        translate_section(section.name, *value);
      }
    }
  }

  std::vector<std::string> ignored_settings() && { return std::move(ignored_); }

 private:
  /// Puts the name of the checked part before errors.
  struct Naming {
    Naming(Translator& translator, const std::string& name) : place(translator.place_), before(place) { place += name + ": "; }
    ~Naming() { place = before; }
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    std::string& place;
    std::string before;
  };

  void fail(const Mark& mark, const std::string& text) { errors_.add({mark, place_ + text}); }

  void add_ignored(const std::string& name, const Value& value) {
    const std::string where = value.mark().str();
    ignored_.push_back(format("{} {}{}", name, short_text(value), where.empty() ? "" : format(" ({})", where)));
  }
  static std::string short_text(const Value& value) {
    return value.is_map() || value.is_list()
               ? ""
               : format("= {}", value.is_string() ? quoted_text(value.as_string(), 40) : scalar(value));
  }
  static std::string scalar(const Value& value) {
    const std::string text = describe(value);  // "int 3"
    return text.substr(text.find(' ') + 1);
  }

  /// `test: true`, as the examples of Hydra say what a program does: here `test:` has sections for that command.
  void take_steps(Value& config) {
    std::erase_if(config.as_map(), [&](const auto& entry) {
      const auto& [name, value] = entry;
      if (!is_among(run_command_names(), name)) return false;
      fail(value.key_mark(), format("'{}:' is a map of sections for `levin {}`, got {}", name, name, describe(value)));
      return true;
    });
  }

  /// Callbacks or loggers under names, of which some have no class.
  void refuse_names(const std::string& flag, Value& value) {
    if ((flag != "callbacks" && flag != "logger") || !value.is_map() || value.size() == 0 || names_class(value)) return;
    if (!std::ranges::all_of(value.as_map(), [](const auto& entry) { return entry.second.is_map() || entry.second.is_null(); }))
      return;
    fail(value.key_mark(), format("these are arguments under names, not classes: write a list of `class_path: NAME` and "
                                  "`init_args: …`, or `_target_: NAME` next to the arguments of each ({})",
                                  quoted_list(names_of_entries(value))));
    clear(value);
  }

  static std::vector<std::string> names_of_entries(const Value& map) {
    std::vector<std::string> names;
    for (const auto& entry : map.as_map()) names.push_back(entry.first);
    return names;
  }

  /// A LightningCLI may have more sections, most often the arguments of a callback.
  void take_own_sections(Value& config) {
    const std::vector<std::string> known = section_names();
    std::erase_if(config.as_map(), [&](const auto& entry) {
      const auto& [name, value] = entry;
      const ClassInfo* const callback = is_among(known, name) ? nullptr : callback_with(value);
      if (callback == nullptr) return false;
      fail(value.key_mark(), format("unknown key {}: its arguments are those of {}, which goes under trainer.callbacks, as "
                                    "`- {{class_path: {}, init_args: …}}`",
                                    quoted_text(name), callback->name, callback->name));
      return true;
    });
  }

  /// The callback that has all of these arguments, and the fewest others; nullptr when there is none, or they say too little.
  static const ClassInfo* callback_with(const Value& arguments) {
    constexpr std::size_t kLeast = 3;
    if (arguments.size() < kLeast || !arguments.is_map()) return nullptr;
    const ClassInfo* nearest = nullptr;
    for (const ClassInfo* info : class_kind("callback").classes()) {
      const auto has = [&](const auto& entry) { return find_option(info->options, entry.first) != nullptr; };
      const bool is_nearer = nearest == nullptr || info->options.size() < nearest->options.size();
      if (is_nearer && std::ranges::all_of(arguments.as_map(), has)) nearest = info;
    }
    return nearest;
  }

  void translate_section(const std::string& section, Value& spec) {
    const bool is_unnamed = spec.is_map() && spec.contains("init_args") && !spec.contains("class_path");
    if (is_unnamed) {
      for (const auto& entry : spec.as_map()) {
        if (nearest_name(entry.first, {"class_path"}).empty()) continue;
        fail(spec.mark(), format("unknown key {}; did you mean 'class_path'?", quoted_text(entry.first)));
        return clear(spec);
      }
      fail(spec.mark(), format("it has arguments but names no class, as LightningCLI writes if it was made for one class: "
                               "give the name, --{}=NAME or `class_path: NAME`{}",
                               section, known_classes(section)));
      return clear(spec);
    }
    if (section == "lr_scheduler") move_monitor(spec);
    translate_component(section, spec);
  }

  static std::string known_classes(const std::string& kind) {
    const std::string known = join(class_kind(kind).classes(), ", ", &ClassInfo::name);
    return known.empty() ? "" : format(" ({})", known);
  }

  static void clear(Value& value) { value = Value().with_mark(Mark(value.mark())); }

  void translate_component(const std::string& kind, Value& spec) {
    if (spec.is_list()) {
      for (Value& element : spec.as_list()) translate_component(kind, element);
      return;
    }
    Value* const name = spec.is_map() ? spec.find("class_path") : &spec;
    if (name == nullptr || !name->is_string()) return;
    const ClassInfo* info = class_kind(kind).find(name->as_string());
    if (info == nullptr) {
      const LightningClass* const known = lightning_class(kind, name->as_string());
      if (known == nullptr) return;
      if (!known->instead.empty()) {
        fail(name->mark(), format("levin has no {} {}: {}", kind, quoted_text(name->as_string()), known->instead));
      }
      if (known->is.empty()) return clear(spec);
      info = class_kind(kind).find(known->is);
      if (info == nullptr) return;
    }
    *name = Value(info->name).with_mark(Mark(name->mark()));
    if (Value* arguments = spec.is_map() ? spec.find("init_args") : nullptr) {
      translate_options(kind, info->name, info->options, *arguments);
    }
  }

  /// The arguments of a class, or the flags of the Trainer.
  void translate_options(std::string_view kind, const std::string& class_name, const std::vector<OptionInfo>& options,
                         Value& arguments) {
    if (!arguments.is_map()) return;
    take_arguments(kind, class_name, arguments);
    for (auto& [name, value] : arguments.as_map()) {
      const Naming naming(*this, name);
      take_unwritten(class_name.empty() ? name : format("{} of {}", name, class_name), value);
      respell(kind, class_name, name, value);
      if (kind == kTrainerFlags) refuse_names(name, value);
      const OptionInfo* const option = find_option(options, name);
      const std::string below = option != nullptr ? kind_of(option->schema) : "";
      if (!below.empty()) translate_component(below, value);
    }
  }

  /// Takes out what levin's class does not have.
  void take_arguments(std::string_view kind, const std::string& class_name, Value& arguments) {
    const std::vector<LightningArgument> foreign = lightning_arguments_of(kind, class_name);
    const std::vector<std::string> own = own_names(kind, class_name);
    Value::Map renamed;
    std::erase_if(arguments.as_map(), [&](const auto& entry) {
      const auto known = std::ranges::find(foreign, entry.first, &LightningArgument::name);
      if (known == foreign.end() || is_among(own, entry.first)) return false;
      if (known->renamed.empty()) {
        take(kind, class_name, *known, entry.second);
      } else if (!entry.second.is_null()) {
        renamed.emplace_back(known->renamed, entry.second);
      }
      return true;
    });
    for (auto& [name, value] : renamed) arguments[name] = std::move(value);
  }

  void take(std::string_view kind, const std::string& class_name, const LightningArgument& argument, const Value& value) {
    const auto is_same = [&](const Value& idle) { return are_same(idle, value); };
    if (value.is_null() || std::ranges::any_of(argument.idle, is_same)) return;
    if (argument.instead.empty()) {
      add_ignored(class_name.empty() ? argument.name : format("{} of {}", argument.name, class_name), value);
    } else {
      fail(value.key_mark(), format("{}: levin has no such {}: {}", argument.name,
                                    kind == kTopKeys     ? "key"
                                    : class_name.empty() ? "flag"
                                                         : "argument of " + class_name,
                                    argument.instead));
    }
  }

  static std::vector<std::string> own_names(std::string_view kind, const std::string& class_name) {
    if (kind == kTopKeys) return section_names();
    if (kind == kTrainerFlags) return names_of(describe_options<TrainerOptions>());
    return names_of(class_kind(kind).find(class_name)->options);
  }

  void respell(std::string_view kind, const std::string& class_name, const std::string& option, Value& value) {
    for (const LightningValue& known : lightning_values()) {
      const bool is_of_class = known.classes.empty() || is_among(known.classes, class_name);
      if (known.kind != kind || known.option != option || !is_of_class || !known.is_meant(value)) continue;
      if (known.instead.empty()) {
        errors_.run([&] { value = known.as(value); });
      } else {
        fail(value.mark(), format("got {}: {}", describe(value), known.instead));
        clear(value);
      }
      return;
    }
  }

  /// An object that has no text stands in the file as what Python prints of it: "cpu", or "<function …>".
  void take_unwritten(const std::string& name, Value& value) {
    if (!value.is_string() || !value.as_string().starts_with(kNotWritten)) return;
    const std::string text = value.as_string().substr(kNotWritten.size());
    if (text.starts_with('<')) {
      add_ignored(name, value);
      return clear(value);
    }
    value = Value(text).with_mark(Mark(value.mark()));
  }

  /// LightningCLI's ReduceLROnPlateau has the metric among its arguments.
  static void move_monitor(Value& spec) {
    Value* const arguments = spec.is_map() ? spec.find("init_args") : nullptr;
    const Value* const monitor = arguments != nullptr && arguments->is_map() ? arguments->find("monitor") : nullptr;
    const ClassInfo* const info = class_of(spec);
    if (monitor == nullptr || info == nullptr || info->name != "ReduceLROnPlateau") return;
    const Value metric = *monitor;
    std::erase_if(arguments->as_map(), [](const auto& entry) { return entry.first == "monitor"; });
    Value& setting = spec["monitor"];
    if (setting.is_null()) setting = metric;
  }

  ErrorCollector& errors_;
  std::string place_;
  std::vector<std::string> ignored_;
};

}  // namespace

Value with_levin_shape(Value config) {
  if (!config.is_map()) return config;
  for (auto& [key, value] : config.as_map()) value = with_levin_shape(key, std::move(value));
  return config;
}

Value with_levin_shape(const std::string& key, Value value) {
  value = without_targets(key, without_dict_kwargs(std::move(value)));
  if (key == "trainer") return with_flags(std::move(value));
  if (!is_component_section(key) || !has_arguments_alone(value)) return value;
  return with_init_args(key, std::move(value));
}

std::vector<std::string> translate_lightning(Value& config, ErrorCollector& errors) {
  Translator translator(errors);
  if (config.is_map()) translator.translate(config);
  return std::move(translator).ignored_settings();
}

}  // namespace levin::cli
