#include "levin/core/protocol/metric_options.h"

#include "levin/core/base/format.h"

namespace levin::detail {

namespace {

// Two bits hold these four: of a fifth the compiler says that it is missing here.
int code_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::kMean:
    case Reduce::kSum:
    case Reduce::kMin:
    case Reduce::kMax:
      return static_cast<int>(reduce);
  }
  return 0;
}

}  // namespace

std::string MetricOptions::str() const {
  std::string text = format("on_step={}, on_epoch={}, reduce={}", on_step, on_epoch, reduce_name(reduce));
  if (prog_bar) text += ", prog_bar=true";
  if (!logger) text += ", logger=false";
  if (sync != SyncDist::kByLevel) text += format(", sync_dist={}", sync == SyncDist::kAlways);
  if (rank_zero_only) text += ", rank_zero_only=true";
  if (per_rank) text += ", per_rank=true";
  return text;
}

std::uint16_t MetricOptions::pack() const {
  const int bits = on_step | on_epoch << 1 | prog_bar << 2 | logger << 3 | rank_zero_only << 4 | per_rank << 5 |
                   code_of(reduce) << 6 | static_cast<int>(sync) << 8;
  return static_cast<std::uint16_t>(bits);
}

std::optional<MetricOptions> MetricOptions::unpack(std::uint16_t bits) {
  const auto flag = [bits](int place) { return (bits >> place & 1) != 0; };
  const MetricOptions options{.on_step = flag(0),
                              .on_epoch = flag(1),
                              .prog_bar = flag(2),
                              .logger = flag(3),
                              .rank_zero_only = flag(4),
                              .per_rank = flag(5),
                              .reduce = static_cast<Reduce>(bits >> 6 & 3),
                              .sync = static_cast<SyncDist>(bits >> 8 & 3)};
  if (options.pack() != bits || options.sync > SyncDist::kNever) return std::nullopt;
  return options;
}

}  // namespace levin::detail
