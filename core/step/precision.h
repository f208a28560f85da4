#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "levin/core/batch.h"
#include "levin/core/config/option_type.h"

namespace levin {

class Accelerator;
class Module;

/// Why 32-true would be faster on this kind of device; "": it would not. `has_bfloat16`: the processor has such arithmetic.
std::string slow_format_warning(PrecisionFormat format, at::DeviceType device, bool has_bfloat16);

/// The number formats of a run's weights, inputs and forward passes, and the memory order of tensors with four dimensions.
class PrecisionPolicy {
 public:
  /// Throws ConfigError for a format that this kind of device does not have.
  PrecisionPolicy(PrecisionFormat format, const Accelerator& accelerator, at::Device device, bool channels_last = false);

  /// Forward passes compute in 16-bit floats, in which small gradients vanish.
  bool computes_in_half() const { return autocast_ && autocast_type_ == at::kHalf; }
  /// Moves parameters and buffers to the device, and converts floating-point ones to the format of weights.
  void prepare_module(Module& module) const;
  /// Converts floating-point inputs to the format of the forward pass, and images to its memory order.
  Batch convert_input(Batch batch) const;

  /// While it lives, forward passes compute in the chosen format.
  class Forward {
   public:
    explicit Forward(const PrecisionPolicy& precision);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

   private:
    const PrecisionPolicy& precision_;
    bool autocast_was_enabled_ = false;
    at::ScalarType autocast_type_was_ = at::kFloat;
  };

  /// While it lives, computations on this kind of device keep their format, also within a Forward: for backward passes and
  /// optimizer steps within training_step. Forward passes that follow see the new weights.
  class Plain {
   public:
    explicit Plain(at::DeviceType device);
    ~Plain();
    Plain(const Plain&) = delete;
    Plain& operator=(const Plain&) = delete;

   private:
    at::DeviceType device_;
    bool autocast_was_enabled_;
  };

 private:
  at::ScalarType weights_ = at::kFloat;
  bool autocast_ = false;
  at::ScalarType autocast_type_ = at::kBFloat16;
  at::Device device_;
  bool channels_last_ = false;
};

}  // namespace levin
