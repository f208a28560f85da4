#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "levin/core/base/hook.h"
#include "levin/core/protocol/log_options.h"

namespace levin::detail {

/// What sync_dist says: nothing, true or false.
enum class SyncDist : std::uint8_t { kByLevel, kAlways, kNever };

/// LogOptions with the hook's defaults filled in: what must be equal for one key at every log(), on every rank.
struct MetricOptions {
  bool on_step = false;
  bool on_epoch = false;
  bool prog_bar = false;
  bool logger = true;
  bool rank_zero_only = false;
  bool per_rank = false;
  Reduce reduce = Reduce::kMean;
  SyncDist sync = SyncDist::kByLevel;

  bool operator==(const MetricOptions&) const = default;
  /// Logged both ways, and therefore under two names.
  bool forked() const { return on_step && on_epoch; }
  bool step_is_reduced() const { return sync == SyncDist::kAlways && !rank_zero_only; }
  bool epoch_is_reduced() const { return sync != SyncDist::kNever && !rank_zero_only; }
  /// "on_step=true, on_epoch=false, reduce=mean": the two levels and the reduction, and whatever is not the default.
  std::string str() const;

  std::uint16_t pack() const;
  /// Unset when no options pack to `bits`.
  static std::optional<MetricOptions> unpack(std::uint16_t bits);
};

/// Fills in what the user left open. Says nothing about whether the hook permits the result.
inline MetricOptions resolve(const LogOptions& options, const HookPolicy& policy) {
  return {.on_step = options.on_step.value_or(policy.default_on_step),
          .on_epoch = options.on_epoch.value_or(policy.default_on_epoch),
          .prog_bar = options.prog_bar,
          .logger = options.logger,
          .rank_zero_only = options.rank_zero_only,
          .per_rank = options.per_rank,
          .reduce = options.reduce,
          .sync = !options.sync_dist   ? SyncDist::kByLevel
                  : *options.sync_dist ? SyncDist::kAlways
                                       : SyncDist::kNever};
}

}  // namespace levin::detail
