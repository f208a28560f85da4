#include "levin/core/state/state_scope.h"

#include <array>
#include <cstddef>
#include <utility>

#include "levin/core/module.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

/// Something that calls `put_back` when it goes.
template <class PutBack>
std::shared_ptr<void> taken(PutBack put_back) {
  struct Taken {
    explicit Taken(PutBack function) : put_back(std::move(function)) {}
    ~Taken() { put_back(); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    PutBack put_back;
  };
  return std::make_shared<Taken>(std::move(put_back));
}

std::shared_ptr<void> take_random(TrainerState&) {
  return taken([random = RandomSnapshot::take()] { random.restore(); });
}

std::shared_ptr<void> take_modes(TrainerState& run) {
  return taken([modes = ModuleModes(run.module())] { modes.restore(); });
}

std::shared_ptr<void> take_requires_grad(TrainerState& run) {
  std::vector<std::pair<at::Tensor, bool>> parameters;
  for (const at::Tensor& parameter : run.module().parameters()) parameters.emplace_back(parameter, parameter.requires_grad());
  return taken([parameters = std::move(parameters)] {
    for (const auto& [parameter, requires_grad] : parameters) parameter.set_requires_grad(requires_grad);
  });
}

std::shared_ptr<void> take_metric_objects(TrainerState& run) {
  return taken([objects = run.metrics->object_states()] {
    for (const HeldState& object : objects) object.give_back();
  });
}

std::shared_ptr<void> take_metrics(TrainerState& run) {
  return taken([&run, metrics = std::vector{run.metrics->save()}] { run.metrics->restore(metrics); });
}

std::shared_ptr<void> take_skip_epoch(TrainerState& run) {
  return taken([&run, skips = run.stop.skips_epoch()] { run.stop.skip_epoch(skips); });
}

std::shared_ptr<void> take_evaluation_counters(TrainerState& run) {
  Progress& progress = run.progress;
  return taken([&progress, totals = progress.evaluation_totals, batches = progress.num_evaluation_batches] {
    progress.evaluation_totals = totals;
    progress.num_evaluation_batches = batches;
  });
}

struct Section {
  std::string_view name;
  std::shared_ptr<void> (*take)(TrainerState& run);
};

constexpr std::array<Section, static_cast<std::size_t>(StateSection::kCount)> kSections = {{
    {"random numbers", take_random},
    {"modes", take_modes},
    {"requires_grad", take_requires_grad},
    {"metric objects", take_metric_objects},
    {"metrics", take_metrics},
    {"skip_epoch", take_skip_epoch},
    {"counters of evaluations", take_evaluation_counters},
}};

using S = StateSection;
// What is listed first is put back last. Metrics that are put back empty metric objects.
constexpr std::array kSanityCheck = {S::kRandom, S::kEvaluationCounters};
constexpr std::array kValidationBeforeTraining = {S::kRandom};
constexpr std::array kVisit = {S::kRandom, S::kModes, S::kRequiresGrad, S::kMetricObjects, S::kMetrics, S::kSkipEpoch};
constexpr std::array kPreview = {S::kRandom, S::kModes, S::kRequiresGrad, S::kMetricObjects};
constexpr std::array kTrial = {S::kRandom, S::kModes, S::kRequiresGrad};

}  // namespace

std::string_view section_name(StateSection section) { return kSections[static_cast<std::size_t>(section)].name; }

std::span<const StateSection> sections_of(SideComputation computation) {
  switch (computation) {
    case SideComputation::kSanityCheck:
      return kSanityCheck;
    case SideComputation::kValidationBeforeTraining:
      return kValidationBeforeTraining;
    case SideComputation::kVisit:
      return kVisit;
    case SideComputation::kPreview:
      return kPreview;
    case SideComputation::kTrial:
      return kTrial;
    case SideComputation::kCount:
      break;
  }
  return {};
}

StateScope::StateScope(TrainerState& run, SideComputation computation) {
  for (const StateSection section : sections_of(computation)) {
    taken_.push_back(kSections[static_cast<std::size_t>(section)].take(run));
  }
}

StateScope::~StateScope() {
  while (!taken_.empty()) taken_.pop_back();
}

}  // namespace levin
