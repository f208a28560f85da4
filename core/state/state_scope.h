#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace levin {

class Section;
struct TrainerState;

/// What runs beside training without a trace. Each has a set of sections (state_scope.cpp).
enum class SideComputation : std::uint8_t {
  kSanityCheck,
  kValidationBeforeTraining,
  kVisit,    ///< Trainer::visit_training_data()
  kPreview,  ///< FitPreview
  kTrial,    ///< TrialRunner
  kCount
};

/// The sections that a computation puts back.
std::vector<Section*> sections_of(TrainerState& run, SideComputation computation);

/// While it lives, a side computation runs; then its sections are as they were, to the bit.
class [[nodiscard]] StateScope {
 public:
  StateScope(TrainerState& run, SideComputation computation);
  ~StateScope();
  StateScope(const StateScope&) = delete;
  StateScope& operator=(const StateScope&) = delete;

 private:
  std::vector<std::shared_ptr<void>> held_;  ///< by section; each puts it back when it goes
};

}  // namespace levin
