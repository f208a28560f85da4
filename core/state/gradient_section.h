#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/state/section.h"

namespace levin {

/// Gradients that wait for more batches, their weight and loss, and how many batches make a step.
///
///     gradients.R.<parameter>                    tensors: those of rank R; only rank 0's if they are reduced already
///     loops: window_open, window_scale           a step has begun; divisor of its gradients: full batch size times batches
///     loops: accumulate_grad_batches             batches of a step if a callback has changed it; else null
///     ranks: R: window_weight, window_loss, bad_loss
class GradientSection final : public Section {
 public:
  GradientSection() : Section("gradients", {"gradients."}) {}

  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void save_own(TrainerState& run, RankState& state) override;
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_ = {}; }

 private:
  struct Loaded {
    std::map<std::string, at::Tensor> gradients;
    bool window_open = false;
    std::int64_t window_scale = 1;
    std::optional<std::int64_t> accumulate_grad_batches;
    std::int64_t window_weight = 0;
    StepLoss window_loss;
    bool bad_loss = false;  ///< since the optimizer stepped
  };
  Loaded loaded_;
};

}  // namespace levin
