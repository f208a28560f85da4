#include "levin/core/state/state_scope.h"

#include "levin/core/state/run_sections.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

template <class... Sections>
std::vector<Section*> set_of(RunSections& sections) {
  return {&sections.get<Sections>()...};
}

}  // namespace

// The first section is restored last. Restoring metrics clears metric objects.
std::vector<Section*> sections_of(TrainerState& run, SideComputation computation) {
  RunSections& all = *run.sections;
  switch (computation) {
    case SideComputation::kSanityCheck:
      return set_of<RandomSection, EvaluationSection>(all);
    case SideComputation::kValidationBeforeTraining:
      return set_of<RandomSection>(all);
    case SideComputation::kVisit:
      return set_of<RandomSection, ModeSection, ParameterSection, MetricObjectSection, MetricSection, WishSection>(all);
    case SideComputation::kPreview:
      return set_of<RandomSection, ModeSection, ParameterSection, MetricObjectSection>(all);
    case SideComputation::kTrial:
      return set_of<RandomSection, ModeSection, ParameterSection>(all);
    case SideComputation::kCount:
      break;
  }
  return {};
}

StateScope::StateScope(TrainerState& run, SideComputation computation) {
  for (Section* const section : sections_of(run, computation)) held_.push_back(section->hold(run));
}

StateScope::~StateScope() {
  while (!held_.empty()) held_.pop_back();
}

}  // namespace levin
