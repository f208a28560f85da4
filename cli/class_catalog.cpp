#include "levin/cli/class_catalog.h"

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

struct Kind {
  std::string name;
  std::string plural;
  std::vector<const ClassInfo*> (*classes)();
  const ClassInfo* (*find)(std::string_view);
};

template <class Base>
Kind kind(const char* plural) {
  return {Registry<Base>::kind(), plural, [] { return Registry<Base>::instance().classes(); },
          [](std::string_view class_path) { return Registry<Base>::instance().find(class_path); }};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
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

}  // namespace

std::vector<ClassKind> class_catalog() {
  std::vector<ClassKind> catalog;
  for (const Kind& kind : kinds()) catalog.push_back({kind.name, kind.plural, kind.classes()});
  return catalog;
}

ClassKind class_kind(std::string_view name) {
  std::vector<std::string> names;
  for (ClassKind& kind : class_catalog()) {
    if (name == kind.name || name == kind.plural) return std::move(kind);
    names.push_back(kind.plural);
  }
  throw ConfigError(format("there is no kind of class '{}'{}", name, did_you_mean(name, names, "kinds")));
}

FoundClass find_class(std::string_view class_path) {
  for (const Kind& kind : kinds()) {
    if (const ClassInfo* info = kind.find(class_path)) return {kind.name, info};
  }
  return {};
}

}  // namespace levin::cli
