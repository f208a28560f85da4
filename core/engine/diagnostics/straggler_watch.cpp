#include "levin/core/engine/diagnostics/straggler_watch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "levin/core/base/format.h"

namespace levin {
namespace {

constexpr double kSlow = 1.5;  ///< times the median of the others
constexpr int kLeastSpans = 5;
constexpr double kLeastSeconds = 2.0;  ///< lost in all

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
      "Rank {} on {} holds up the others: {} its own work has taken {} a step, that of the others {} (median){}. The "
      "difference lies in {}: {}, the others' {}.",
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
  if (slow_spans_ < kLeastSpans || own - others < kLeastSeconds || !told_.insert(slowest).second) return std::nullopt;
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
