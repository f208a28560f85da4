#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// The input of one step: tensors by position and by name. The first dimension of a tensor is the batch.
///
///     Batch batch{{"image", images}, {"label", labels}};
///     batch["image"]; batch[0];
class LEVIN_API Batch {
 public:
  using Item = std::pair<std::string, at::Tensor>;

  Batch() = default;
  Batch(std::initializer_list<Item> items) : items_(items) {}
  explicit Batch(std::vector<Item> items) : items_(std::move(items)) {}
  /// One tensor without a name.
  Batch(at::Tensor tensor) : items_{{std::string(), std::move(tensor)}} {}
  /// Tensors without names.
  static Batch of(std::vector<at::Tensor> tensors);

  /// Throws a MisuseError that lists the batch's tensors when none matches.
  const at::Tensor& operator[](std::size_t position) const;
  const at::Tensor& operator[](int position) const { return (*this)[static_cast<std::size_t>(position)]; }
  const at::Tensor& operator[](std::string_view name) const;
  const at::Tensor& operator[](const char* name) const { return (*this)[std::string_view(name)]; }
  bool contains(std::string_view name) const;
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const std::vector<Item>& items() const { return items_; }
  /// Adds a tensor, or replaces the one of the same name. An empty name always adds.
  void set(std::string name, at::Tensor tensor);

  /// Number of samples: the first dimension of the first tensor that has one; 1 when none has; 0 when empty.
  std::int64_t batch_size() const;
  /// The batch on another device; tensors that are on it already are shared.
  Batch to(const at::Device& device, bool non_blocking = false) const;
  /// Floating-point tensors in another type; others unchanged.
  Batch to(at::ScalarType floating_type) const;
  /// Tensors of four dimensions in another order in memory; others unchanged.
  Batch to(at::MemoryFormat format) const;
  /// A copy in page-locked memory, for LibTorch's accelerators to copy asynchronously; without an accelerator the batch itself.
  Batch pin_memory() const;

 private:
  std::vector<Item> items_;
};

/// The result of training_step, and what a validation or test step may pass on (Module::set_step_output). `return loss;` is
/// enough; extra tensors are for callbacks (`on_train_batch_end` and similar hooks).
struct LEVIN_API StepOutput {
  StepOutput() = default;
  StepOutput(at::Tensor loss) : loss(std::move(loss)) {}
  StepOutput(at::Tensor loss, Batch extras) : loss(std::move(loss)), extras(std::move(extras)) {}

  /// Undefined in training_step: the step is skipped, as Lightning does for None (all ranks stay in step).
  at::Tensor loss;
  Batch extras;
};

}  // namespace levin
