#include "levin/cli/config/class_catalog.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

template <class Base>
ClassKind kind(const char* plural) {
  return {Registry<Base>::kind(), plural, [] { return Registry<Base>::instance().classes(); },
          [](std::string_view class_path) { return Registry<Base>::instance().find(class_path); }};
}

}  // namespace

const std::vector<ClassKind>& class_catalog() {
  static const std::vector<ClassKind> all = {
      kind<Module>("models"),
      kind<DataModule>("data_modules"),
      kind<Dataset>("datasets"),
      kind<Sampler>("samplers"),
      kind<ImageTransform>("image_transforms"),
      kind<BatchTransform>("batch_transforms"),
      kind<Callback>("callbacks"),
      kind<Logger>("loggers"),
      kind<Metric>("metrics"),
      kind<OptimizerFactory>("optimizers"),
      kind<LrSchedulerFactory>("lr_schedulers"),
      kind<Profiler>("profilers"),
      kind<Strategy>("strategies"),
      kind<Accelerator>("accelerators"),
  };
  return all;
}

const ClassKind& class_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const ClassKind& kind : class_catalog()) {
    if (name == kind.name || name == kind.plural) return kind;
    names.push_back(kind.plural);
  }
  throw ConfigError(format("there is no kind of class '{}'{}", name, did_you_mean(name, names, "kinds")));
}

const ClassInfo* class_of(const Value& spec) {
  const Value* name = spec.is_string() ? &spec : spec.find("class_path");
  if (name == nullptr || !name->is_string()) return nullptr;
  for (const ClassKind& kind : class_catalog()) {
    if (const ClassInfo* info = kind.find(name->as_string())) return info;
  }
  return nullptr;
}

std::vector<OptionInfo> options_of(const Value& spec) {
  const ClassInfo* info = class_of(spec);
  return info != nullptr ? info->options : std::vector<OptionInfo>{};
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const OptionInfo* find_option(const std::vector<OptionInfo>& options, const std::string& name) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const OptionInfo& option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<OptionInfo>& options) {
  std::vector<std::string> names;
  for (const OptionInfo& option : options) names.push_back(option.name);
  return names;
}

std::string kind_of(const Value& schema) {
  if (const Value* reference = schema.find("$ref")) {
    const std::string& text = reference->as_string();
    return text.substr(text.rfind('/') + 1);
  }
  if (const Value* items = schema.find("items")) return kind_of(*items);
  const Value* alternatives = schema.find("anyOf");
  for (const Value& alternative : alternatives != nullptr ? alternatives->as_list() : Value::List{}) {
    if (const std::string kind = kind_of(alternative); !kind.empty()) return kind;
  }
  return {};
}

}  // namespace levin::cli
