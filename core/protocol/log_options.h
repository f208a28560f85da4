#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"

namespace levin {

/// How values of one key become one value: over the steps of an epoch, and over ranks.
enum class Reduce : std::uint8_t { kMean, kSum, kMin, kMax };
inline constexpr std::size_t kReductions = 4;

/// "mean", "sum", "min", "max".
LEVIN_API const char* reduce_name(Reduce reduce);

/// The options of log(). Written with designated initializers, in this order: `log("val_loss", loss, {.prog_bar = true})`.
struct LEVIN_API LogOptions {
  /// Write the value of each step (every log_every_n_steps). Default: by hook, true in a training step.
  std::optional<bool> on_step = std::nullopt;
  /// Accumulate the value and write it at the end of the epoch. Default: by hook, true outside a training step.
  /// A key with both is forked into `name_step` and `name_epoch`.
  std::optional<bool> on_epoch = std::nullopt;
  /// Show the value in the progress bar.
  bool prog_bar = false;
  /// Hand the value to the loggers.
  bool logger = true;
  /// Mean is weighted by batch_size; sum, min and max are not.
  Reduce reduce = Reduce::kMean;
  /// Unset: epoch values are reduced over ranks, step values are each rank's own. true: step values are reduced too (where they
  /// are written, and where something is decided on them). false: epoch values stay local as well.
  std::optional<bool> sync_dist = std::nullopt;
  /// Only rank 0's value counts and is written. Legal on all ranks and on rank 0 alone.
  bool rank_zero_only = false;
  /// Also keep each rank's value, as `rank_{r}_{name}` in rank 0's row.
  bool per_rank = false;
  /// Weight of this value in a mean. Default: the size of the current batch, 1 outside a batch.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// With several evaluation loaders, add `/dataloader_idx_{i}` to the key.
  bool add_dataloader_idx = true;
};

/// Where log() or a collective was called.
struct LEVIN_API CallSite {
  const char* file = "";
  std::uint32_t line = 0;

  CallSite() = default;
  CallSite(const SourceLocation& where) : file(where.file_name()), line(where.line()) {}
  /// "digits.cpp:41"
  std::string str() const;
};

}  // namespace levin
