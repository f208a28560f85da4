#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace levin {

struct TrainerState;

/// A part of a run's state that a side computation may change. To add one: a line here, one in kSections (state_scope.cpp),
/// which says how it is taken and put back, and its name in the sets that need it.
enum class StateSection : std::uint8_t {
  kRandom,              ///< generators of this process and of its device
  kModes,               ///< training or evaluation, of the module and of each below it
  kRequiresGrad,        ///< of the module's parameters
  kMetricObjects,       ///< what they have taken in, and what compute() sees of all ranks
  kMetrics,             ///< what training has logged, and what users see of it
  kSkipEpoch,           ///< this rank's wish
  kEvaluationCounters,  ///< batches and samples of the last evaluation, and what the loaders of the next one have
  kCount
};

/// What runs beside training without a trace. Each is a set of sections.
enum class SideComputation : std::uint8_t {
  kSanityCheck,
  kValidationBeforeTraining,
  kVisit,    ///< Trainer::visit_training_data()
  kPreview,  ///< FitPreview
  kTrial,    ///< TrialRunner
  kCount
};

std::string_view section_name(StateSection section);
/// The sections that a computation puts back.
std::span<const StateSection> sections_of(SideComputation computation);

/// While it lives, a side computation runs; then its sections are as they were, to the bit.
class [[nodiscard]] StateScope {
 public:
  StateScope(TrainerState& run, SideComputation computation);
  ~StateScope();
  StateScope(const StateScope&) = delete;
  StateScope& operator=(const StateScope&) = delete;

 private:
  std::vector<std::shared_ptr<void>> taken_;  ///< by section; each puts it back when it goes
};

}  // namespace levin
