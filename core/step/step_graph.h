#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/batch.h"
#include "levin/core/module.h"
#include "levin/core/step/optimizer_graph.h"

namespace levin {

/// What a training step logs while a device records it: values that each replay computes again.
class RecordedLogs {
 public:
  explicit RecordedLogs(const at::Device& device) : device_(device) {}

  /// Called instead of logging the value. Throws MisuseError for a value that is not on the device.
  void add(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where);
  /// Throws MisuseError: a number on the host may differ in each step.
  [[noreturn]] void refuse_number(std::string_view name) const;
  /// Logs the current values.
  void log(Module& module) const;

 private:
  struct Call {
    std::string name;
    at::Tensor value;
    LogOptions options;
    SourceLocation where;
  };
  at::Device device_;
  std::vector<Call> calls_;
};

struct RunSetup;
class RecordedStep;

/// `cuda_graph: auto`: training steps that the device has recorded once and repeats with one call each, if the results agree.
/// After some steps of a kind it records one, and compares the loss and all gradients with those of the step itself on the next
/// few batches; a step that differs, or cannot be recorded, is called as before, and only a line of `log_level: debug` says
/// why. Works on one rank only: recording calls a step one time more than other ranks do, so its collectives would never
/// complete. torch.cuda.make_graphed_callables divides a step in the same way. The optimizer's step is recorded separately
/// (OptimizerGraph), since hooks come before it.
class StepGraph {
 public:
  explicit StepGraph(const RunSetup& setup);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// A fit begins.
  void begin();
  /// It ends: recordings free their memory.
  void end();
  /// Calls or replays the module's training_step.
  StepOutput run(Module& module, const Batch& batch, std::int64_t batch_idx);
  /// Called: before a step of this optimizer. Records it, too, while training steps are recorded.
  void take(const std::shared_ptr<torch::optim::Optimizer>& optimizer) {
    if (!given_up_) optimizer_.take(optimizer);
  }
  /// Where a step logs while it is recorded; null otherwise.
  RecordedLogs* logs() const { return recording_; }

 private:
  StepOutput record_and_call(Module& module, const Batch& batch, std::int64_t batch_idx);
  StepOutput replay_and_call(Module& module, const Batch& batch, std::int64_t batch_idx);
  void forget();
  void give_up(std::string_view why);

  const RunSetup& setup_;
  bool given_up_ = true;
  std::int64_t calls_ = 0;     ///< before one is recorded
  std::int64_t compared_ = 0;  ///< how often the recorded step gave the same result
  int unlike_ = 0;             ///< batches in a row that do not fit the recorded step
  c10::intrusive_ptr<RecordedStep> step_;
  RecordedLogs* recording_ = nullptr;
  OptimizerGraph optimizer_;
};

}  // namespace levin
