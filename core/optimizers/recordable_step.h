#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace levin {

/// The part of an optimizer's step that the device does. What is another number in each step, the learning rate and the count
/// of steps, can be read from the device's memory, so that a recorded step holds for them all.
class RecordableStep {
 public:
  virtual ~RecordableStep() = default;

  /// Does it, with the numbers that the host has.
  virtual void call() = 0;
  /// Writes the numbers of this step to the device, those that are not there yet. Before a step that reads them.
  virtual void send_numbers() = 0;
  /// Does it, with the numbers on the device. This can be recorded.
  virtual void call_with_sent_numbers() = 0;

  /// What stays in a recorded step: where its tensors are, and its other numbers.
  struct Fixed {
    std::vector<const void*> places;
    std::vector<double> numbers;
    bool operator==(const Fixed&) const = default;
  };
  /// Unset where it cannot be recorded now.
  virtual std::optional<Fixed> fixed() const = 0;
  /// All tensors that it changes: parameters and state.
  virtual std::vector<at::Tensor> changed() const = 0;
};

/// Does steps of an optimizer: see RecordableOptimizer.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual void run(RecordableStep& step) = 0;
};

}  // namespace levin
