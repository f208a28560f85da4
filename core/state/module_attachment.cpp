#include "levin/core/state/module_attachment.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/metric.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

thread_local TrainerState* run_of_thread = nullptr;

}  // namespace

ModuleAttachment::Scope::Scope(TrainerState& run) : outer_(std::exchange(run_of_thread, &run)) {}
ModuleAttachment::Scope::~Scope() { run_of_thread = outer_; }

TrainerState* ModuleAttachment::running() { return run_of_thread; }

ModuleAttachment::Silence::Silence(TrainerState& run) : run_(run) {
  for (const Module* module : all(run)) module->attachment_.metrics = nullptr;
}

ModuleAttachment::Silence::~Silence() {
  for (const Module* module : all(run_)) set(*module, &run_);
}

std::vector<const Module*> ModuleAttachment::all(const TrainerState& run) {
  std::vector<const Module*> modules = run.parts.modules_below;
  modules.push_back(run.parts.module);
  return modules;
}

void ModuleAttachment::release(Module& module) {
  if (module.attachment_.trainer == nullptr) return;
  TrainerState& run = TrainerState::of(*module.attachment_.trainer);
  if (run.entry.active) {
    throw MisuseError("The module is already running in another Trainer: give this one another module.");
  }
  detach(run);
}

void ModuleAttachment::attach(Module& module, TrainerState& run) {
  run.parts.module = &module;
  try {
    set(module, &run);
    for (const auto& below : module.modules(/*include_self=*/false)) {
      if (const auto* child = dynamic_cast<const Module*>(below.get())) tie(*child, run);
    }
    set_metric_objects(run);
  } catch (...) {
    detach(run);
    throw;
  }
}

void ModuleAttachment::set_metric_objects(TrainerState& run) {
  std::vector<MetricObject*> objects;
  const auto add = [&](const std::string& path, const Module& module) {
    for (const auto& [name, metric] : module.metrics_) {
      // A module that is registered twice has the first name.
      if (std::ranges::find(objects, metric.get()) != objects.end()) continue;
      metric->set_name(path.empty() ? name : format("{}.{}", path, name));
      objects.push_back(metric.get());
    }
  };
  if (run.parts.module != nullptr) {
    add("", *run.parts.module);
    for (const auto& below : run.parts.module->named_modules("", /*include_self=*/false)) {
      if (const auto* child = dynamic_cast<const Module*>(below.value().get())) add(below.key(), *child);
    }
  }
  run.metrics->set_objects(objects);
}

void ModuleAttachment::tie(const Module& module, TrainerState& run) {
  if (module.attachment_.trainer == &run.trainer) return;
  forget(const_cast<Module&>(module));  // it may be attached to a Trainer that ran it alone, or in another module
  set(module, &run);
  run.parts.modules_below.push_back(&module);
}

void ModuleAttachment::set(const Module& module, TrainerState* run) {
  module.attachment_.trainer = run == nullptr ? nullptr : &run->trainer;
  module.attachment_.metrics = run == nullptr ? nullptr : run->metrics.get();
}

void ModuleAttachment::detach(TrainerState& run) {
  if (run.parts.module != nullptr) set(*run.parts.module, nullptr);
  for (const Module* module : run.parts.modules_below) set(*module, nullptr);
  run.parts.module = nullptr;
  run.parts.modules_below.clear();
  set_metric_objects(run);
}

void ModuleAttachment::forget(Module& module) {
  if (module.attachment_.trainer == nullptr) return;
  TrainerState& run = TrainerState::of(*module.attachment_.trainer);
  if (run.parts.module == &module) return detach(run);
  std::erase(run.parts.modules_below, &module);
  set(module, nullptr);
  if (!module.metrics_.empty()) set_metric_objects(run);
}

void ModuleAttachment::set_predictor(const Module& module, const PredictorParts* parts) {
  module.attachment_.predictor = parts;
  for (const auto& below : module.modules(/*include_self=*/false)) {
    if (const auto* child = dynamic_cast<const Module*>(below.get())) child->attachment_.predictor = parts;
  }
}

bool ModuleAttachment::find(const Module& module) {
  if (module.attachment_.trainer != nullptr) return true;
  if (run_of_thread == nullptr || run_of_thread->parts.module == nullptr) return false;
  for (const auto& below : run_of_thread->parts.module->modules(/*include_self=*/false)) {
    if (below.get() != &module) continue;
    tie(module, *run_of_thread);
    if (!module.metrics_.empty()) set_metric_objects(*run_of_thread);
    return true;
  }
  return false;
}

MetricStore* ModuleAttachment::metrics(const Module& module, std::string_view name, const SourceLocation& where,
                                       std::string_view call) {
  if (find(module)) {
    if (TrainerState::of(*module.attachment_.trainer).options().barebones) [[unlikely]] {
      Console::instance().warn_once(
          format("{}: {}(\"{}\") reaches no logger and no progress bar, as barebones: true has none; callbacks alone see it.",
                 CallSite(where).str(), call, name),
          "barebones", Speaker::kRun);
    }
    return module.attachment_.metrics;
  }
  if (run_of_thread == nullptr) {
    throw MisuseError(
        format("{}: {}(\"{}\") is called outside of a run. Log in the hooks of fit, validate and test, not in a constructor "
               "or before them; in a module that also works without a Trainer, ask has_trainer() first.",
               CallSite(where).str(), call, name));
  }
  rank_warn_once(
      format("{}(\"{}\") ({}) goes nowhere: it is called in a module that is no part of the one which the Trainer runs. Add it "
             "with register_module(), or log from the module that has it.",
             call, name, CallSite(where).str()));
  return nullptr;
}

}  // namespace levin
