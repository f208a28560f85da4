#include "levin/core/config/registry.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <type_traits>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/component.h"
#include "levin/core/config/option_check.h"

namespace levin {
namespace {

std::string_view last_part(std::string_view name) {
  const std::size_t separator = name.find_last_of(".:");
  return separator == std::string_view::npos ? name : name.substr(separator + 1);
}

struct RegistrationErrors {
  std::mutex mutex;
  std::vector<std::string> texts;
};
RegistrationErrors& registration_errors() {
  static RegistrationErrors errors;
  return errors;
}

/// "; it is a class of another kind: data" for a name of one of these; "" for any other.
template <class... Bases>
std::string kind_among(const std::string& name) {
  std::string text;
  const auto look_in = [&](const auto& registry) {
    if (text.empty() && registry.find(name) != nullptr) text = format("; it is a class of another kind: {}", registry.kind());
  };
  (look_in(Registry<Bases>::instance()), ...);
  return text;
}

}  // namespace

namespace detail {

std::vector<std::string> take_registration_errors() {
  RegistrationErrors& errors = registration_errors();
  const std::lock_guard lock(errors.mutex);
  return std::exchange(errors.texts, {});
}

ClassPathAndArgs read_class_path(const Value& value, const std::string& expected) {
  if (value.is_string()) return {value, Value(Value::Map{}).with_mark(value.mark())};
  if (!value.is_map()) throw_wrong_type(value, expected);
  const std::vector<std::string> keys = {"class_path", "init_args"};
  for (const auto& [key, content] : value.as_map()) {
    if (key != keys[0] && key != keys[1])
      throw ConfigError(content.key_mark(), format("unknown key {}{} (the arguments of a class go under init_args)",
                                                   quoted_text(key), did_you_mean(key, keys, "keys")));
  }
  const Value* class_path = value.find("class_path");
  if (class_path == nullptr) throw ConfigError(value.mark(), "missing key 'class_path' (the name of a class)");
  if (!class_path->is_string()) throw_wrong_type(*class_path, "a class name");
  const Value* init_args = value.find("init_args");
  Value arguments = init_args != nullptr && !init_args->is_null() ? *init_args : Value(Value::Map{});
  if (arguments.mark().str().empty()) arguments.set_mark(class_path->mark());
  return {*class_path, std::move(arguments)};
}

Value schema_of_class(const std::string& kind) { return Value(Value::Map{{"$ref", "#/$defs/" + kind}}); }

}  // namespace detail

template <class Base>
Registry<Base>& Registry<Base>::instance() {
  static Registry registry;
  return registry;
}

template <class Base>
void Registry<Base>::add(ClassInfo info, Factory factory) {
  const std::lock_guard lock(mutex_);
  const auto position = std::lower_bound(entries_.begin(), entries_.end(), info.name,
                                         [](const auto& entry, const std::string& name) { return entry->info.name < name; });
  if (position != entries_.end() && (*position)->info.name == info.name)
    throw MisuseError(format("the {} class '{}' is registered twice; give one of them another name", kind(), info.name));
  entries_.insert(position, std::make_unique<Entry>(Entry{std::move(info), std::move(factory)}));
}

template <class Base>
void Registry<Base>::add_at_load(const char* name, const char* help, std::vector<OptionInfo> (*options)(),
                                 Value (*complete)(const Value&), std::shared_ptr<Base> (*make)(const Value&)) noexcept {
  try {
    add({name, help, options(), complete}, make);
  } catch (const std::exception& error) {
    RegistrationErrors& errors = registration_errors();
    const std::lock_guard lock(errors.mutex);
    errors.texts.emplace_back(error.what());
  }
}

template <class Base>
const typename Registry<Base>::Entry* Registry<Base>::find_entry(std::string_view class_path) const {
  const std::shared_lock lock(mutex_);
  const Entry* found = nullptr;
  int fitting = 0;
  for (const auto& entry : entries_) {
    if (entry->info.name == class_path) return entry.get();
    if (last_part(entry->info.name) != last_part(class_path)) continue;
    found = entry.get();
    ++fitting;
  }
  return fitting == 1 ? found : nullptr;
}

template <class Base>
const typename Registry<Base>::Entry& Registry<Base>::entry_of(const Value& class_path) const {
  const std::string& name = class_path.as_string();
  if (const Entry* entry = find_entry(name)) return *entry;
  std::vector<std::string> known, fitting;
  for (const ClassInfo* info : classes()) {
    known.push_back(info->name);
    if (last_part(info->name) == last_part(name)) fitting.push_back(info->name);
  }
  if (known.empty()) {
    throw ConfigError(
        class_path.mark(),
        format("unknown {} class {}: no {} class is registered; name the library that has yours under `plugins:`, or "
               "with --plugin FILE",
               kind(), quoted_text(name), kind()));
  }
  const std::string problem = fitting.empty() ? "unknown " : "ambiguous ";
  std::string help = fitting.empty()
                         ? kind_among<Accelerator, BatchTransform, Callback, DataModule, Dataset, ImageTransform, Logger,
                                      LrSchedulerFactory, Metric, Module, OptimizerFactory, Profiler, Sampler, Strategy>(name)
                         : "; it may be " + quoted_list(fitting);
  if (help.empty()) help = did_you_mean(last_part(name), known, "known classes");
  if (std::is_same_v<Base, Module> || (fitting.empty() && name.find('.') != std::string::npos)) {
    help += format("{} the library that has yours under `plugins:`, or with --plugin FILE",
                   help.ends_with('?') ? " Or name" : "; name");
  }
  throw ConfigError(class_path.mark(), format("{}{} class {}{}", problem, kind(), quoted_text(name), help));
}

template <class Base>
std::shared_ptr<Base> Registry<Base>::make(const Value& class_path, const Value& init_args) const {
  return entry_of(class_path).factory(init_args);
}

template <class Base>
Value Registry<Base>::complete(const Value& class_path, const Value& init_args) const {
  const ClassInfo& info = entry_of(class_path).info;
  Value complete = info.complete(init_args);
  detail::resolve_defaults(info.options, complete);
  return complete;
}

template <class Base>
const ClassInfo* Registry<Base>::find(std::string_view class_path) const {
  const Entry* entry = find_entry(class_path);
  return entry != nullptr ? &entry->info : nullptr;
}

template <class Base>
std::vector<const ClassInfo*> Registry<Base>::classes() const {
  const std::shared_lock lock(mutex_);
  std::vector<const ClassInfo*> infos;
  for (const auto& entry : entries_) infos.push_back(&entry->info);
  return infos;
}

template class Registry<Accelerator>;
template class Registry<BatchTransform>;
template class Registry<Callback>;
template class Registry<DataModule>;
template class Registry<Dataset>;
template class Registry<ImageTransform>;
template class Registry<Logger>;
template class Registry<LrSchedulerFactory>;
template class Registry<Metric>;
template class Registry<Module>;
template class Registry<OptimizerFactory>;
template class Registry<Profiler>;
template class Registry<Sampler>;
template class Registry<Strategy>;

}  // namespace levin
