#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "levin/core/base/fwd.h"
#include "levin/core/optimizers/recordable_step.h"

namespace levin {

class DeviceGraph;
struct RunSetup;

/// How often a recording is compared with the called step, since a single step may not show a dependence on its number.
inline constexpr int kComparisons = 3;
/// After so many steps in a row that do not fit the recorded one, nothing is gained.
inline constexpr int kMostUnlike = 10;

/// `cuda_graph: auto`: an optimizer's step that the device has recorded and repeats with one call, on gradients that a recorded
/// backward pass has left at the same addresses. At first it is compared with the step itself. If the results differ, or it
/// cannot be recorded, the step is called as before, and a line says why.
class OptimizerGraph final : public StepRunner {
 public:
  explicit OptimizerGraph(const RunSetup& setup);
  ~OptimizerGraph() override;
  OptimizerGraph(const OptimizerGraph&) = delete;
  OptimizerGraph& operator=(const OptimizerGraph&) = delete;

  /// From here on this optimizer's steps go through run().
  void take(const std::shared_ptr<torch::optim::Optimizer>& optimizer);
  /// They no longer do, and the recording frees its memory.
  void release();
  /// Does a step.
  void run(RecordableStep& step) override;

 private:
  bool record(RecordableStep& step);
  void replay_and_compare(RecordableStep& step);
  void give_up(std::string_view why);
  void forget();

  const RunSetup& setup_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  bool given_up_ = false;
  std::unique_ptr<DeviceGraph> graph_;
  std::optional<RecordableStep::Fixed> recorded_, last_;
  int recordings_ = 0;
  int compared_ = 0;   ///< how often the recorded step gave the same result
  int elsewhere_ = 0;  ///< steps in a row that are neither the recorded one nor the last
};

}  // namespace levin
