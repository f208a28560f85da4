#include "levin/core/diagnostics/work_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

constexpr double kLeastWait = 1.0;
constexpr double kLeastShare = 0.2;
constexpr std::int64_t kLeastBatches = 5;

/// The threads that end the waiting: one reads a batch in the time of a wait and a step, and all together must do so in the
/// time of a step.
double workers_needed(double waited, double worked, int workers) {
  const double reading = workers == 0 ? waited : workers * (waited + worked);
  // A hundredth does not justify another one.
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
  return batches_ >= kLeastBatches && waited_ > kLeastWait && waited_ > kLeastShare * (waited_ + worked_);
}

std::string LoaderWatch::advice(const std::optional<int>& workers, int cores, int ranks) const {
  const auto batches = static_cast<double>(batches_);
  std::string text = format(
      "The data loader is the bottleneck: training has waited {:.1f} of {:.1f} s for its batches, {:.1f} ms for each, where "
      "the step itself takes {:.1f} ms. ",
      waited_, waited_ + worked_, 1e3 * waited_ / batches, 1e3 * worked_ / batches);
  if (!workers)
    return text +
           "Let the loader read ahead on its own threads, or make reading cheaper; if making batches is the work itself, "
           "override is_interactive().";
  const double needed = workers_needed(waited_, worked_, *workers);
  const int cores_of_rank = std::max(1, cores / ranks);
  if (needed <= cores_of_rank) return text + format("Try num_workers: {:.0f} (now {}).", needed, *workers);
  const std::string shared = ranks > 1 ? format(", which {} ranks share", ranks) : "";
  text += needed < 1000 ? format("It would take num_workers: {:.0f} (now {})", needed, *workers)
                        : format("No number of workers is enough (num_workers is {})", *workers);
  text += format(", more than the {}{}: ", counted(static_cast<std::size_t>(cores), "core"), shared);
  return text + (*workers < cores_of_rank ? format("try {}, and make reading cheaper.", cores_of_rank)
                                          : "make reading cheaper, by preparing the data once, before training.");
}

namespace {

constexpr double kSlow = 1.5;  ///< times the median of the others
constexpr int kLeastSpans = 5;
constexpr double kLeastLoss = 2.0;  ///< lost in all

double total(const WorkSeconds& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

/// Of all ranks but one.
template <class ValueOf>
double median_of_others(const std::vector<WorkSeconds>& ranks, std::size_t rank, const ValueOf& value_of) {
  std::vector<double> values;
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    if (other != rank) values.push_back(value_of(ranks[other]));
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void add(std::vector<WorkSeconds>& sums, const std::vector<WorkSeconds>& span) {
  sums.resize(span.size());
  for (std::size_t rank = 0; rank < span.size(); ++rank) {
    for (std::size_t kind = 0; kind < kKindsOfWork; ++kind) sums[rank][kind] += span[rank][kind];
  }
}

const char* name(Work kind) {
  switch (kind) {
    case Work::kLoader:
      return "the data loader";
    case Work::kForward:
      return "training_step";
    case Work::kBackward:
      return "the backward pass";
    default:
      return "hooks, optimizer and logging";
  }
}

}  // namespace

std::string Straggler::text(const std::string& host) const {
  const auto ms = [](double seconds) { return format("{:.1f} ms", 1e3 * seconds); };
  const bool was_faster = own_before > 0 && own > kSlow * own_before;
  const std::string when = was_faster ? format("since step {}", since) : std::string("in this fit");
  return format(
      "Rank {} on {} delays the others: {} its own work has taken {} per step, the others' {} (median){}. The difference is in "
      "{}: {}, the others' {}.",
      rank, host, when, ms(own), ms(others), was_faster ? format("; before, it took {}", ms(own_before)) : "", name(kind),
      ms(own_of_kind), ms(others_of_kind));
}

std::optional<Straggler> StragglerWatch::look(const std::vector<BoundaryPayload>& by_rank, std::int64_t step) {
  const std::int64_t first = std::exchange(last_step_, step);
  if (by_rank.size() < 2 || first < 0 || step <= first) return std::nullopt;
  Ranks span(by_rank.size());
  for (std::size_t rank = 0; rank < span.size(); ++rank) {
    for (std::size_t kind = 0; kind < kKindsOfWork; ++kind) span[rank][kind] = 1e-9 * static_cast<double>(by_rank[rank][kind]);
  }
  const auto less = [](const WorkSeconds& one, const WorkSeconds& other) { return total(one) < total(other); };
  const auto slowest = static_cast<std::size_t>(std::max_element(span.begin(), span.end(), less) - span.begin());
  const bool is_slow = total(span[slowest]) > kSlow * median_of_others(span, slowest, total);
  if (slow_spans_ > 0 && (!is_slow || slowest != slow_rank_)) {
    add(before_, slow_);
    steps_before_ += first - slow_since_;
    slow_.clear();
    slow_spans_ = 0;
  }
  if (!is_slow) {
    add(before_, span);
    steps_before_ += step - first;
    return std::nullopt;
  }
  if (slow_spans_++ == 0) slow_since_ = first;
  slow_rank_ = slowest;
  add(slow_, span);

  const double own = total(slow_[slowest]);
  const double others = median_of_others(slow_, slowest, total);
  if (slow_spans_ < kLeastSpans || own - others < kLeastLoss || !reported_.insert(slowest).second) return std::nullopt;
  const auto steps = static_cast<double>(step - slow_since_);
  Straggler straggler{.rank = static_cast<int>(slowest), .own = own / steps, .others = others / steps, .since = slow_since_};
  if (steps_before_ > 0) straggler.own_before = total(before_[slowest]) / static_cast<double>(steps_before_);
  double largest = 0;
  for (std::size_t kind = 0; kind < kKindsOfWork; ++kind) {
    const double mine = slow_[slowest][kind];
    const double theirs = median_of_others(slow_, slowest, [&](const WorkSeconds& seconds) { return seconds[kind]; });
    if (mine - theirs <= largest) continue;
    largest = mine - theirs;
    straggler.kind = static_cast<Work>(kind);
    straggler.own_of_kind = mine / steps;
    straggler.others_of_kind = theirs / steps;
  }
  return straggler;
}

}  // namespace levin
