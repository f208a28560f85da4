#include "levin/cli/class_catalog.h"

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
      kind<Callback>("callbacks"),
      kind<Logger>("loggers"),
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

}  // namespace levin::cli
