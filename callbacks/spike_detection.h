#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"

namespace levin {

struct LEVIN_API SpikeDetectionOptions {
  MonitorMode mode = MonitorMode::kMin;             ///< which losses are better
  std::int64_t window = 10;                         ///< batches whose mean a loss is compared with
  std::int64_t warmup = 1;                          ///< batches of an epoch before the first that is checked
  std::optional<double> atol = std::nullopt;        ///< a spike is at least this far from the mean
  std::optional<double> rtol = 2.0;                 ///< and at least this many times the mean
  std::filesystem::path exclude_batches_path = {};  ///< a folder, or a .json file; empty: default_root_dir
  bool finite_only = true;                          ///< a loss that is NaN or infinite is a spike, too

  static void declare(OptionList<SpikeDetectionOptions>& options);
};

/// A loss leapt away from those before it. Thrown on every rank, at the same batch.
class LEVIN_API TrainingSpikeError final : public Error {
 public:
  TrainingSpikeError(const std::string& message, std::int64_t batch_idx) : Error(message), batch_idx_(batch_idx) {}
  ~TrainingSpikeError() override;
  std::int64_t batch_idx() const { return batch_idx_; }

 private:
  std::int64_t batch_idx_;
};

/// Ends a run whose loss leaps: when it is worse than the last one and far from the mean of those before, on any rank. The
/// batch and the one before it, which may have spoilt the weights, are written to skip_batches.json. Ranks: all; an exchange of
/// 16 bytes a batch, for which the loss is read from its device. Lightning's SpikeDetection.
class LEVIN_API SpikeDetection final : public WithOptions<Callback, SpikeDetectionOptions> {
 public:
  explicit SpikeDetection(Options options = {}) : WithOptions("SpikeDetection", std::move(options)) {}

  /// So that a rank without a batch takes part.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }
  /// All batches that have been listed, by their numbers in their epochs.
  const std::vector<std::int64_t>& bad_batches() const { return state_.bad_batches; }

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  /// Throws TrainingSpikeError.
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  bool is_spike(double loss, double mean) const;
  std::filesystem::path write_bad_batches(const Trainer& trainer) const;

  /// Under Lightning's names.
  struct State {
    double last_val = 0;
    std::vector<double> running;  ///< the last losses that were no spikes
    std::vector<std::int64_t> bad_batches;
  };
  State state_;
};

}  // namespace levin
