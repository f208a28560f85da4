#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
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

}  // namespace levin
