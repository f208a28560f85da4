#include "levin/core/engine/diagnostics/loader_watch.h"

#include <algorithm>
#include <cmath>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

constexpr double kLeastSeconds = 1.0;
constexpr double kLeastShare = 0.2;
constexpr std::int64_t kLeastBatches = 5;

/// Threads without which training goes on waiting: one reads a batch in the time in which training waits for it and works on
/// another, and all of them together have to be done in the time of the work.
double workers_needed(double waited, double worked, int workers) {
  const double reading = workers == 0 ? waited : workers * (waited + worked);
  // For a hundredth nobody needs another one.
  return std::max(std::ceil(reading / std::max(worked, 1e-9) - 0.01), workers + 1.0);
}

}  // namespace

void LoaderWatch::begin_reading() {
  reading_since_ = seconds_();
  counts_ = worked_since_.has_value();
  if (counts_) worked_ += reading_since_ - *worked_since_;
}

void LoaderWatch::end_reading() {
  worked_since_ = seconds_();
  if (!counts_) return;
  waited_ += *worked_since_ - reading_since_;
  ++batches_;
}

bool LoaderWatch::is_bottleneck() const {
  return batches_ >= kLeastBatches && waited_ > kLeastSeconds && waited_ > kLeastShare * (waited_ + worked_);
}

std::string LoaderWatch::advice(const std::optional<int>& workers, int cores, int ranks) const {
  const auto batches = static_cast<double>(batches_);
  std::string text = format(
      "The data loader is the bottleneck: training has waited {:.1f} of {:.1f} s for its batches, {:.1f} ms for each, where "
      "the step itself takes {:.1f} ms. ",
      waited_, waited_ + worked_, 1e3 * waited_ / batches, 1e3 * worked_ / batches);
  if (!workers)
    return text +
           "Let the loader read ahead on threads of its own, or make reading cheaper; one whose batches are the work itself "
           "overrides acts().";
  const double needed = workers_needed(waited_, worked_, *workers);
  const int cores_of_rank = std::max(1, cores / ranks);
  if (needed <= cores_of_rank) return text + format("Try num_workers: {:.0f} (now {}).", needed, *workers);
  const std::string shared = ranks > 1 ? format(", which {} ranks share", ranks) : "";
  text += needed < 1000 ? format("It would take num_workers: {:.0f} (now {})", needed, *workers)
                        : format("No number of workers would do (num_workers is {})", *workers);
  text += format(", more than the {}{}: ", counted(static_cast<std::size_t>(cores), "core"), shared);
  return text + (*workers < cores_of_rank ? format("try {}, and make reading cheaper.", cores_of_rank)
                                          : "make reading cheaper, by preparing the data once, before training.");
}

}  // namespace levin
