#pragma once

#include <algorithm>
#include <cstdint>

namespace levin {

/// Makes ranks agree when a span of time has passed, by rank 0's clock, without an exchange in every batch: at each exchange
/// rank 0 sets how many batches later the next one is, half the way to the end of the span at its pace so far. So the number of
/// exchanges grows with the logarithm of the batches. Plain arithmetic: the caller reads the clock and makes the exchange.
class SharedInterval {
 public:
  /// Rank 0's message to the others.
  struct Proposal {
    std::int64_t passed = 0;      ///< 1: the span is over
    std::int64_t batches_on = 1;  ///< the next exchange is so many batches later
  };

  /// seconds 0: the span is over at each batch.
  explicit SharedInterval(double seconds) : seconds_(seconds) {}

  /// Training starts. `now`: seconds of a steady clock; only rank 0's matters.
  void start(double now) {
    training_start_ = span_start_ = now;
    batches_ = 0;
    next_exchange_ = 1;
  }
  /// Call once a batch, on every rank. True: all ranks exchange in this batch.
  bool batch_done() { return ++batches_ >= next_exchange_; }
  /// What rank 0 proposes in an exchange.
  Proposal propose(double now) const {
    const bool passed = now - span_start_ >= seconds_;
    const double left = passed ? seconds_ : seconds_ - (now - span_start_);
    const double seconds_per_batch = (now - training_start_) / static_cast<double>(std::max<std::int64_t>(batches_, 1));
    // The bound keeps a run that slows down by a lot from overshooting by hours.
    constexpr double kMost = 10000;
    const double half_way = seconds_per_batch > 0 ? left / 2 / seconds_per_batch : 1;
    return {passed, static_cast<std::int64_t>(std::clamp(half_way, 1.0, kMost))};
  }
  /// Seconds of the span that are left.
  double left(double now) const { return std::max(0.0, seconds_ - (now - span_start_)); }
  /// Every rank takes rank 0's proposal. True: the span is over, and a new one starts.
  bool accept(const Proposal& proposal, double now) {
    next_exchange_ = batches_ + std::max<std::int64_t>(proposal.batches_on, 1);
    if (proposal.passed != 0) span_start_ = now;
    return proposal.passed != 0;
  }

 private:
  double seconds_;
  double training_start_ = 0;
  double span_start_ = 0;
  std::int64_t batches_ = 0;
  std::int64_t next_exchange_ = 1;
};

}  // namespace levin
