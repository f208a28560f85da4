#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/batch.h"
#include "levin/core/module.h"

namespace levin {

/// What a training step logs while a device records it: values that are computed anew whenever the step is done again.
class RecordedLogs {
 public:
  explicit RecordedLogs(const at::Device& device) : device_(device) {}

  /// In place of logging it. Throws MisuseError for a value that is not on the device.
  void add(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where);
  /// Throws MisuseError: a number that the host has may be another one in each step.
  [[noreturn]] void refuse_number(std::string_view name) const;
  /// Logs the values as they are now.
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

/// A training step that a device has recorded: its forward and its backward pass, each a graph. Everything that they read and
/// write stays where it was when they were recorded, so inputs are copied there, and what comes out is copied away.
class RecordedStep : public std::enable_shared_from_this<RecordedStep> {
 public:
  using TrainingStep = std::function<StepOutput(const Batch&)>;

  /// Records `training_step` on a batch like this one, with its backward pass to `parameters`, those of the module that require
  /// a gradient. Nothing of it is computed. Null where this kind of device records nothing. Throws what the step throws,
  /// c10::Error for what cannot be recorded, and MisuseError.
  static std::shared_ptr<RecordedStep> record(const Accelerator& accelerator, const at::Device& device,
                                              std::vector<at::Tensor> parameters, const Batch& batch,
                                              const TrainingStep& training_step);

  /// Whether this batch could stand in the place of the recorded one.
  bool fits(const Batch& batch) const;
  /// The forward pass on this batch. The loss gives parameters their gradients as that of the step itself does.
  StepOutput forward(const Batch& batch);
  /// The gradients of the last forward pass, where the loss' is `gradient`: by parameter, undefined where the loss does not
  /// depend on it. In place until the next call.
  const std::vector<at::Tensor>& backward(const at::Tensor& gradient);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  RecordedStep(std::vector<at::Tensor> parameters, const Batch& batch);

  std::vector<at::Tensor> parameters_;
  Batch inputs_;
  StepOutput output_;
  at::Tensor loss_gradient_;
  std::vector<at::Tensor> gradients_;
  // Last: they end before the memory that they work in.
  std::unique_ptr<DeviceGraph> forward_;
  std::unique_ptr<DeviceGraph> backward_;
};

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
