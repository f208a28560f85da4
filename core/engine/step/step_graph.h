#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/batch.h"
#include "levin/core/engine/step/recorded_step.h"

namespace levin {

class Module;
struct RunSetup;

/// `cuda_graph: auto`: training steps that the device has recorded once and does again with one call each, where that comes to
/// the same. After some steps of a kind it records one, and compares with the step itself, on the next few batches, the loss
/// and all gradients; one that differs, or cannot be recorded, is called as ever, and only a line of `log_level: debug` says
/// why. On one rank: recording calls a step once more than others, and what it asked of other ranks would find nobody.
/// torch.cuda.make_graphed_callables divides a step in the same way.
class StepGraph {
 public:
  explicit StepGraph(const RunSetup& setup) : setup_(setup) {}

  /// A fit begins.
  void begin();
  /// It ends: what was recorded gives its memory back.
  void end();
  /// The module's training_step, or what it comes to. Called: in place of it.
  StepOutput run(Module& module, const Batch& batch, std::int64_t batch_idx);
  /// Steps that were done again, and not called.
  std::int64_t replayed() const { return replayed_; }

  /// Where a step logs while it is recorded; null otherwise.
  RecordedLogs* logs() const { return recording_; }

 private:
  /// What a recorded step holds for.
  struct Subject {
    std::vector<at::Tensor> parameters;  ///< those that are trained
    /// Of all parameters, where they are and whether they are trained; of all parts of the module, in which mode they are.
    std::vector<std::pair<const void*, const void*>> identity;
    static Subject of(Module& module);
  };
  struct StepState;
  struct Replayed {
    at::Tensor loss;
    std::vector<at::Tensor> gradients;  ///< by parameter
  };

  StepOutput record_and_call(Module& module, const Batch& batch, std::int64_t batch_idx);
  StepOutput replay_and_call(Module& module, const Batch& batch, std::int64_t batch_idx);
  void record(Module& module, const Batch& batch, std::int64_t batch_idx);
  /// Empty where what was replayed, `after` which buffers were these, is what `loss` and buffers are now.
  std::string difference_of(const at::Tensor& loss, const Replayed& replayed, const StepState& after) const;
  void forget();
  void give_up(std::string_view why);

  const RunSetup& setup_;
  bool given_up_ = true;
  std::int64_t calls_ = 0;     ///< before one is recorded
  std::int64_t compared_ = 0;  ///< how often the recorded step came to the same
  int unlike_ = 0;             ///< batches in a row that the recorded step is not for
  std::int64_t replayed_ = 0;
  Subject subject_;
  std::unique_ptr<RecordedLogs> logs_;  ///< of step_
  std::shared_ptr<RecordedStep> step_;
  RecordedLogs* recording_ = nullptr;
};

}  // namespace levin
