#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace levin {

class Section;
struct TrainerState;

/// Computations that leave no trace in training. Each has a set of sections (state_scope.cpp).
enum class SideComputation : std::uint8_t {
  kSanityCheck,
  kValidationBeforeTraining,
  kVisit,    ///< Trainer::visit_training_data()
  kPreview,  ///< FitPreview
  kTrial,    ///< TrialRunner
  kCount
};

/// The sections that are restored after a computation.
std::vector<Section*> sections_of(TrainerState& run, SideComputation computation);

/// While it lives, a side computation runs; afterwards its sections are as before, to the bit.
class [[nodiscard]] StateScope {
 public:
  StateScope(TrainerState& run, SideComputation computation);
  ~StateScope();
  StateScope(const StateScope&) = delete;
  StateScope& operator=(const StateScope&) = delete;

 private:
  std::vector<std::shared_ptr<void>> held_;  ///< by section; each restores it when destroyed
};

}  // namespace levin
