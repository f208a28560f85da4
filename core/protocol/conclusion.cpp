#include "levin/core/protocol/conclusion.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/boundary_exchange.h"

namespace levin::detail {

namespace {

/// "rank_3_": what the key of a value that is one rank's own begins with.
std::string rank_prefix(std::int64_t rank) { return format("rank_{}_", rank); }

/// Looks whether all ranks that could log a metric did. Gives "" when they did, else a text that names the key, the ranks with
/// and without it, the hook and the call site; the same on every rank.
/// Excused are ranks without a batch (batches[rank] == 0) from what is logged in the hooks of a batch, every rank but 0 from
/// what is rank_zero_only, and all others from `rank_{r}_…` logged by rank r.
std::string missing_ranks(const MetricEntry& entry, Level level, std::span<const MetricPayload> by_rank,
                          std::span<const std::int64_t> batches) {
  if (entry.options.rank_zero_only) return {};
  const bool once_a_batch = !hook_policy(entry.hook).epoch_only;
  std::vector<int> with;
  std::vector<int> without;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].slot.present()) {
      with.push_back(static_cast<int>(rank));
    } else if (!once_a_batch || batches[rank] > 0) {
      without.push_back(static_cast<int>(rank));
    }
  }
  if (with.empty() || without.empty()) return {};
  if (with.size() == 1 && std::string_view(entry.name).starts_with(rank_prefix(with.front()))) return {};
  const std::string value = entry.options.is_reduced(level)
                                ? format("the {} over the ranks that logged it", reduce_name(entry.options.reduce))
                                : format("rank {}'s", with.front());
  return format("log(\"{}\") in {} ({}) ran on {} and not on {}: its value is {}", entry.plain_name, hook_name(entry.hook),
                entry.site, rank_list(with), rank_list(without), value);
}

constexpr std::size_t kWarnedSingly = 8;   // keys at a boundary
constexpr std::size_t kWarnedInARun = 50;  // warnings

// What to say of many keys at once: the first in full, and others by name.
std::string summary_of(const Boundary& boundary, const std::vector<std::string>& names, const std::string& first) {
  constexpr std::size_t kNamed = 8;
  const auto others = std::span(names).first(std::min(names.size(), kNamed)).subspan(1);
  return format("{} keys were not logged by every rank until {}. The first: {}. The others: \"{}\"{}", names.size(),
                describe(boundary), first, join(others, "\", \""),
                names.size() > kNamed ? format(" and {} more", names.size() - kNamed) : "");
}

void warn_of(const std::vector<std::string>& warnings, const BoundaryPolicy& policy) {
  for (const std::string& text : warnings) {
    if (policy.coverage_warnings > kWarnedInARun) return;
    if (++policy.coverage_warnings > kWarnedInARun) {
      policy.warn("More keys are logged on only some ranks; this run does not report them. strict_logging makes it an error.");
      return;
    }
    policy.warn(text +
                ". Log it on every rank, or pass .rank_zero_only = true. (Reported once for each key; strict_logging makes it "
                "an error.)");
  }
}

void check_coverage(const Boundary& boundary, const Exchanged& exchanged, const BoundaryPolicy& policy) {
  const Level level = level_of(boundary.kind);
  std::vector<std::int64_t> batches;
  for (const FrameHeader& header : exchanged.headers) batches.push_back(header.batches);

  std::vector<std::string> names;
  std::vector<std::string> warnings;  // of the first ones
  for (const ExchangedMetric& metric : exchanged.metrics) {
    MetricEntry& entry = *metric.entry;
    if (entry.warned || metric.level != level) continue;
    std::string missing = missing_ranks(entry, level, metric.payloads, batches);
    if (missing.empty()) continue;
    entry.warned = true;
    names.push_back(entry.plain_name);
    if (warnings.size() < kWarnedSingly) warnings.push_back(std::move(missing));
  }
  if (names.size() > warnings.size()) warnings = {summary_of(boundary, names, warnings.front())};
  if (policy.strict_logging && !warnings.empty()) {
    throw of_all_ranks(
        MisuseError(format("strict_logging: not every rank logged the same metrics until {}:\n  {}\nLog them on every rank, or "
                           "pass .rank_zero_only = true.",
                           describe(boundary), join(warnings, "\n  "))));
  }
  if (policy.warn) warn_of(warnings, policy);
}

/// Of an object's values the slots hold what each rank computed.
double own_value(const MetricEntry& entry, const Slot& slot, Level level) {
  return level == Level::kStep || entry.is_of_object() ? slot.value : epoch_value(slot, entry.options.reduce);
}

/// What counts for all: the reduced value; of a local one, the lowest rank's that logged it.
/// `of_all`: what an object of all ranks computes.
double decided_value(const MetricEntry& entry, std::span<const Slot> by_rank, Level level, std::optional<double> of_all = {}) {
  const Reduce reduce = entry.options.reduce;
  if (!entry.options.is_reduced(level)) {
    return own_value(entry, *std::find_if(by_rank.begin(), by_rank.end(), std::mem_fn(&Slot::present)), level);
  }
  if (of_all) return *of_all;
  return level == Level::kStep ? reduce_step(by_rank, reduce) : reduce_epoch(by_rank, reduce);
}

void add_to_rows(BoundaryOutcome& outcome, const MetricEntry& entry, Level level, std::span<const Slot> by_rank,
                 double decided) {
  const std::string& name = entry.name_of(level);
  outcome.logger_row[name] = decided;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!by_rank[rank].present()) continue;
    const double value = own_value(entry, by_rank[rank], level);
    outcome.rank_rows[rank][name] = value;
    if (entry.options.per_rank) outcome.logger_row[rank_prefix(static_cast<std::int64_t>(rank)) + name] = value;
  }
}

/// What the ranks that logged an object have seen together, in the order of ranks.
MetricState merged_state(const ExchangedMetric& metric) {
  const MetricObject& object = *metric.entry->object;
  MetricState total = object.empty_state();
  MetricState of_rank;
  for (std::size_t rank = 0; rank < metric.payloads.size(); ++rank) {
    const auto& [slot, numbers] = metric.payloads[rank];
    if (!slot.present()) continue;
    of_rank.numbers.assign(numbers.begin(), numbers.begin() + metric.entry->layout.numbers);
    if (!metric.rows.empty()) of_rank.rows = metric.rows[rank];
    of_rank.updates = static_cast<std::int64_t>(slot.value);
    object.merge(total, of_rank);
  }
  return total;
}

/// The values of an object, as all ranks have them together.
std::vector<double> values_of_all_ranks(const ExchangedMetric& metric) {
  MetricEntry& entry = *metric.entry;
  if (metric.level == Level::kStep) return entry.values_of(merged_state(metric));
  if (!metric.rows_are_known) entry.all_ranks = std::make_shared<const MetricState>(merged_state(metric));
  if (entry.options.is_reduced(Level::kEpoch)) entry.object->show_all_ranks(entry.all_ranks);
  return entry.values_of(*entry.all_ranks);
}

/// `take` gets the entry that has the names of a value, each rank's value of it, and what counts.
template <class Take>
void for_each_value(const ExchangedMetric& metric, const Take& take) {
  MetricEntry& entry = *metric.entry;
  std::vector<Slot> own;
  for (const MetricPayload& payload : metric.payloads) own.push_back(payload.slot);
  if (!entry.is_of_object()) return take(entry, own, decided_value(entry, own, metric.level));
  if (entry.object == nullptr) return;  // the module that runs has it no more
  const std::vector<double> of_all = values_of_all_ranks(metric);
  for (std::size_t value = 0; value < entry.values.size(); ++value) {
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      if (own[rank].present()) own[rank].value = metric.payloads[rank].values(entry.layout)[value];
    }
    take(entry.values[value], own, decided_value(entry, own, metric.level, of_all[value]));
  }
}

}  // namespace

BoundaryOutcome conclude(const Boundary& boundary, const Exchanged& exchanged, int rank, const BoundaryPolicy& policy,
                         MetricViews& views) {
  const bool ends = boundary.kind == BoundaryKind::kTrainStep || boundary.kind == BoundaryKind::kEpochEnd;
  // Of a sanity check no row is written.
  const bool rows = ends && boundary.stage != Stage::kSanityCheck;
  if (exchanged.ranks() > 1 && ends) check_coverage(boundary, exchanged, policy);

  BoundaryOutcome outcome;
  for (const FrameHeader& header : exchanged.headers) {
    outcome.rank_votes.push_back(unpack_votes(header.votes));
    outcome.payloads.push_back(header.payload);
  }
  outcome.votes = levin::merge(outcome.rank_votes);
  outcome.rank_rows.resize(exchanged.ranks());

  const auto own_rank = static_cast<std::size_t>(rank);
  // Steps first: of a forked key the plain name is the epoch's from where there is one.
  for (const Level level : {Level::kStep, Level::kEpoch}) {
    const auto take = [&](MetricEntry& entry, std::span<const Slot> by_rank, double decided) {
      views.decide(entry, level, decided);
      const bool is_local = !entry.options.is_reduced(level) && !entry.options.rank_zero_only;
      if (!is_local) views.show(entry, level, decided);
      if (is_local && by_rank[own_rank].present()) views.show(entry, level, own_value(entry, by_rank[own_rank], level));
      if (rows && level == level_of(boundary.kind) && entry.options.logger)
        add_to_rows(outcome, entry, level, by_rank, decided);
    };
    for (const ExchangedMetric& metric : exchanged.metrics) {
      if (metric.level == level && metric.any_present()) for_each_value(metric, take);
    }
  }
  outcome.local_row = outcome.rank_rows[own_rank];
  return outcome;
}

}  // namespace levin::detail
