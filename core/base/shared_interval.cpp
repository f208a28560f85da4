#include "levin/core/base/shared_interval.h"

#include <algorithm>

namespace levin {

void SharedInterval::start(double now) {
  training_start_ = span_start_ = now;
  batches_ = 0;
  next_meeting_ = 1;
}

bool SharedInterval::batch_done() {
  ++batches_;
  return batches_ >= next_meeting_;
}

SharedInterval::Proposal SharedInterval::propose(double now) const {
  const bool passed = now - span_start_ >= seconds_;
  const double left = passed ? seconds_ : seconds_ - (now - span_start_);
  const double seconds_per_batch = (now - training_start_) / static_cast<double>(std::max<std::int64_t>(batches_, 1));
  // The bound keeps a run that slows down by a lot from overshooting by hours.
  constexpr double kMost = 10000;
  const double half_way = seconds_per_batch > 0 ? left / 2 / seconds_per_batch : 1;
  return {passed, static_cast<std::int64_t>(std::clamp(half_way, 1.0, kMost))};
}

bool SharedInterval::accept(const Proposal& proposal, double now) {
  next_meeting_ = batches_ + std::max<std::int64_t>(proposal.batches_on, 1);
  if (proposal.passed != 0) span_start_ = now;
  return proposal.passed != 0;
}

}  // namespace levin
