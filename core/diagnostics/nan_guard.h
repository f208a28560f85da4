#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/run/scalar_value.h"

namespace levin {

/// Finds NaN and infinite losses, gradients and logged metrics, and acts as TrainerOptions::on_nan says. It checks the loss in
/// every step on the CPU; on other devices, where a check waits for the device, in steps whose row is due, with the row's
/// values. It checks gradients in these steps, and in every step if on_nan acts on them.
class NanGuard {
 public:
  /// `memory`: see DeferredScalar.
  NanGuard(const RunSetup& setup, const Progress& progress, const HookTracker& tracker, MetricStore& metrics,
           std::shared_ptr<ScalarMemory> memory)
      : setup_(setup), progress_(progress), tracker_(tracker), metrics_(metrics), memory_(std::move(memory)) {}

  /// Starts a fit.
  void reset() { state_ = {}; }
  /// `row_is_due`: the step of this batch writes a row.
  void begin_batch(bool row_is_due) { state_.row_is_due = row_is_due; }

  /// A loss of this rank, before its backward pass.
  void look_at_loss(const at::Tensor& loss);
  /// This rank's loss was bad in the current step, which its votes report.
  bool votes_against() const { return state_.loss_is_bad; }
  /// A loss has been bad since the last step, on this rank or on another. Checkpoints store it.
  bool waits_to_skip() const { return state_.loss_is_bad || state_.rank_of_bad_loss.has_value(); }
  void restore(bool waits_to_skip);
  /// Takes the votes of all ranks, which travel with a reduction.
  void adopt(const std::vector<Votes>& by_rank);

  /// Called: when gradients are complete. True: this step is skipped and the gradients are cleared, on all ranks. Throws Error,
  /// on all ranks, if training must stop.
  bool skips_step(torch::optim::Optimizer& optimizer, const Module& module);
  /// Checks a metric's value, if known.
  void look_at_metric(std::string_view name, double value);
  void look_at_row(const MetricMap& row);
  /// Checks the values that were left for the row of the step that has ended.
  void look_at_deferred();

  /// Reports how many steps of the epoch were skipped, if any.
  void end_epoch();

 private:
  /// Values on a device until the row is read.
  struct Deferred {
    std::shared_ptr<DeferredValue> number;
    std::string place;
  };
  /// The sum of each gradient of an optimizer, on its device.
  struct GradientSums {
    GradientSums(const torch::optim::Optimizer& optimizer, const Module& its_module);
    /// The name of the first parameter whose gradient is not finite. Waits for the device. Clipping does not make a gradient
    /// finite.
    std::optional<std::string> first_bad() const;

    const Module* module;
    std::vector<at::Tensor> parameters;  ///< those that have a gradient
    at::Tensor by_parameter;             ///< undefined where there are none
  };
  struct DeferredGradients : Deferred {
    GradientSums sums;
  };
  struct State {
    bool row_is_due = false;
    bool loss_is_bad = false;             ///< of this rank, since the last step
    std::optional<int> rank_of_bad_loss;  ///< the first of all ranks, since the last step
    bool reported = false;                ///< of a loss or gradient
    bool metric_reported = false;
    std::int64_t skipped = 0;  ///< steps of this epoch
    std::optional<Deferred> loss;
    std::optional<DeferredGradients> gradients;
  };

  /// Checks with the due row; at once if a decision needs it, or the numbers are on the CPU.
  bool defers(const at::Tensor& number) const;
  Deferred defer(const at::Tensor& number, std::string place);
  void report_loss(double value, const std::string& place);
  void report_gradient(const std::string& parameter, const std::string& place);
  /// "in training_step (train, epoch 0, step 3) on rank 1". `hook`: its source; unset: the running one.
  std::string place(int rank, std::optional<Hook> hook = std::nullopt) const;

  const RunSetup& setup_;
  const Progress& progress_;
  const HookTracker& tracker_;
  MetricStore& metrics_;
  std::shared_ptr<ScalarMemory> memory_;
  State state_;
};

}  // namespace levin
