#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "levin/core/base/fwd.h"
#include "levin/core/optimizers/recordable_step.h"

namespace levin {

class DeviceGraph;
struct RunSetup;

/// How often what has been recorded is compared with what is called, since one step may not show what depends on its number.
inline constexpr int kComparisons = 3;
/// So many steps in a row that the recorded one is not for: nothing is gained.
inline constexpr int kMostUnlike = 10;

/// `cuda_graph: auto`: an optimizer's step that the device has recorded and does again with one call, after gradients that a
/// recorded backward pass has left in the same place. It is compared with the step itself at first. Where it comes to something
/// else, or cannot be recorded, the step is called as ever, and a line says why.
class OptimizerGraph final : public StepRunner {
 public:
  explicit OptimizerGraph(const RunSetup& setup);
  ~OptimizerGraph() override;
  OptimizerGraph(const OptimizerGraph&) = delete;
  OptimizerGraph& operator=(const OptimizerGraph&) = delete;

  /// From here on this optimizer's steps go through run().
  void take(const std::shared_ptr<torch::optim::Optimizer>& optimizer);
  /// They do no longer, and what was recorded gives its memory back.
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
  int compared_ = 0;   ///< how often the recorded step came to the same
  int elsewhere_ = 0;  ///< steps in a row that are neither the recorded one nor the last
};

}  // namespace levin
