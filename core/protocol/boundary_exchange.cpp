#include "levin/core/protocol/boundary_exchange.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_store.h"

namespace levin::detail {

namespace {

/// What this rank has to say of a metric: of a step what is new, for the step's row or for who decides before it.
Slot own_slot(const MetricEntry& entry, Level level, BoundaryKind kind) {
  if (level == Level::kEpoch) return entry.epoch;
  const bool is_new = kind == BoundaryKind::kTrainStep ? entry.step_is_new : entry.step_is_unshared;
  return is_new ? entry.step : Slot{};
}

}  // namespace

const Exchanged& BoundaryExchange::meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                                        std::int64_t batches) {
  table_.due_at(boundary, exchanged_.metrics);
  settle();

  std::vector<std::byte> new_metrics;
  if (failure_ || !table_.new_entries().empty()) new_metrics = pack(own_new_metrics(boundary.kind));
  what_ = describe(boundary);
  gather_frames({.kind = boundary.kind,
                 .stage = boundary.stage,
                 .hook = hook,
                 .failed = failure_ ? std::uint8_t{1} : std::uint8_t{0},
                 .slots = static_cast<std::uint32_t>(table_.frame_slots()),
                 .votes = pack(votes),
                 .epoch = boundary.epoch,
                 .step = boundary.step,
                 .sequence = sequence_,
                 .agreed_hash = table_.agreed_hash(),
                 .new_metrics_bytes = new_metrics.size(),
                 .batches = batches,
                 .payload = payload});
  ++sequence_;
  // Decided by the same bytes on every rank: nobody is left waiting in the second exchange.
  const bool any_new_metrics = std::any_of(exchanged_.headers.begin(), exchanged_.headers.end(),
                                           [](const FrameHeader& header) { return header.new_metrics_bytes > 0; });
  if (any_new_metrics) add_new_metrics(exchange_new_metrics(new_metrics), boundary);
  return exchanged_;
}

void BoundaryExchange::settle() {
  failure_ = nullptr;
  try {
    DeferredValues values;
    for (const DueMetric& due : exchanged_.metrics)
      values.add(due.level == Level::kStep ? due.entry->deferred_step : due.entry->deferred_epoch);
    for (const MetricEntry* entry : table_.new_entries()) {
      values.add(entry->deferred_step);
      values.add(entry->deferred_epoch);
    }
    values.read();
    for (const DueMetric& due : exchanged_.metrics)
      due.level == Level::kStep ? due.entry->settle_step() : due.entry->settle_epoch(due.entry->options.reduce);
    for (MetricEntry* entry : table_.new_entries()) {
      entry->settle_step();
      entry->settle_epoch(entry->options.reduce);
    }
  } catch (const std::exception& error) {
    failure_ = std::current_exception();
    failure_text_ = error.what();
  } catch (...) {
    failure_ = std::current_exception();
    failure_text_ = "an exception of unknown type";
  }
}

NewMetrics BoundaryExchange::own_new_metrics(BoundaryKind kind) const {
  NewMetrics new_metrics;
  if (failure_) new_metrics.failure = failure_text_;
  for (const MetricEntry* entry : table_.new_entries()) {
    new_metrics.metrics.push_back({entry->hook, entry->dataloader_idx, entry->name, entry->options, entry->site,
                                   own_slot(*entry, Level::kStep, kind), entry->epoch});
  }
  return new_metrics;
}

void BoundaryExchange::gather_frames(const FrameHeader& header) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const auto& metrics = exchanged_.metrics;
  frame_.clear();
  append_number(frame_, header);
  for (const DueMetric& due : metrics) append_number(frame_, own_slot(*due.entry, due.level, header.kind));
  for (std::size_t empty = metrics.size(); empty < table_.frame_slots(); ++empty) append_number(frame_, Slot{});
  frames_.resize(ranks * frame_.size());
  gather(frame_, frames_);

  std::vector<ByteReader> readers;
  exchanged_.headers.clear();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    readers.emplace_back(std::span(frames_).subspan(rank * frame_.size(), frame_.size()), "a frame is too short");
    exchanged_.headers.push_back(readers.back().number<FrameHeader>());
  }
  require_same_boundary(exchanged_.headers);
  exchanged_.slots.clear();
  for (std::size_t metric = 0; metric < metrics.size(); ++metric) {
    for (ByteReader& reader : readers) exchanged_.slots.push_back(reader.number<Slot>());
  }
}

std::vector<NewMetrics> BoundaryExchange::exchange_new_metrics(const std::vector<std::byte>& mine) {
  const auto& headers = exchanged_.headers;
  std::uint64_t longest = 0;
  for (const FrameHeader& header : headers) longest = std::max(longest, header.new_metrics_bytes);
  std::vector<std::byte> padded = mine;
  padded.resize(longest);
  std::vector<std::byte> all(longest * headers.size());
  what_ = "the metric names of " + what_;
  gather(padded, all);

  std::vector<NewMetrics> by_rank(headers.size());
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const std::uint64_t size = headers[rank].new_metrics_bytes;
    if (size == 0) continue;
    try {
      by_rank[rank] = unpack_new_metrics(std::span(all).subspan(rank * longest, size));
    } catch (const DesyncError& error) {
      throw DesyncError(format("rank {}, {}: {}", rank, what_, error.what()));
    }
  }
  return by_rank;
}

void BoundaryExchange::add_new_metrics(const std::vector<NewMetrics>& by_rank, const Boundary& boundary) {
  if (failure_) std::rethrow_exception(failure_);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (exchanged_.headers[rank].failed == 0) continue;
    throw DesyncError(format("rank {} failed while it read its metrics for {}: {}", rank,
                             describe(exchanged_.headers[rank].boundary()), by_rank[rank].failure));
  }
  for (MergedMetric& merged : merge(by_rank)) {
    const MetricKey key{merged.metric.hook, merged.metric.name, merged.metric.dataloader_idx};
    MetricEntry* entry = table_.find(key);
    if (entry == nullptr) entry = &table_.add(key, merged.metric.options, merged.metric.site, merged.first_rank);
    // One description on all ranks, so that texts about it are the same.
    entry->site = merged.metric.site;
    entry->site_rank = merged.first_rank;
    table_.agree(*entry);
    const auto add = [&](Level level, const std::vector<Slot>& slots) {
      exchanged_.metrics.push_back({entry, level});
      exchanged_.slots.insert(exchanged_.slots.end(), slots.begin(), slots.end());
    };
    if (entry->options.on_step && entry->group == MetricGroup::kTrain && carries_steps(boundary.kind)) {
      add(Level::kStep, merged.step);
    }
    if (entry->options.on_epoch && entry->group == group_of(boundary.stage) && level_of(boundary.kind) == Level::kEpoch) {
      add(Level::kEpoch, merged.epoch);
    }
  }
  table_.clear_new_entries();
}

void BoundaryExchange::gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  ++collectives_;
  group_.all_gather(mine, all, what_.c_str());
}

std::string rank_list(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t start = 0; start < ranks.size();) {
    std::size_t end = start;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    if (end - start < 2) end = start;  // "0, 1" reads better than "0-1"
    if (start > 0) text += ", ";
    text += std::to_string(ranks[start]);
    if (end > start) text += format("-{}", ranks[end]);
    start = end + 1;
  }
  return text;
}

std::string rank_prefix(std::int64_t rank) { return format("rank_{}_", rank); }

namespace {

std::string what_counts(const MetricEntry& entry, Level level, int first_rank) {
  const bool reduced = level == Level::kStep ? entry.options.step_is_reduced() : entry.options.epoch_is_reduced();
  if (!reduced) return format("its value is rank {}'s", first_rank);
  return format("its value is the {} over the ranks that logged it", reduce_name(entry.options.reduce));
}

}  // namespace

std::string missing_ranks(const MetricEntry& entry, Level level, std::span<const Slot> by_rank,
                          std::span<const std::int64_t> batches) {
  if (entry.options.rank_zero_only) return {};
  const bool once_a_batch = !hook_policy(entry.hook).epoch_only;
  std::vector<int> with;
  std::vector<int> without;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].present()) {
      with.push_back(static_cast<int>(rank));
    } else if (!once_a_batch || batches[rank] > 0) {
      without.push_back(static_cast<int>(rank));
    }
  }
  if (with.empty() || without.empty()) return {};
  if (with.size() == 1 && std::string_view(entry.name).starts_with(rank_prefix(with.front()))) return {};
  return format("log(\"{}\") in {} ({}) ran on {} and not on {}: {}", entry.plain_name, hook_name(entry.hook), entry.site,
                rank_list(with), rank_list(without), what_counts(entry, level, with.front()));
}

namespace {

// Rows are written where a step or an epoch ends, and never of a sanity check.
bool has_rows(const Boundary& boundary) {
  const bool ends = boundary.kind == BoundaryKind::kTrainStep || boundary.kind == BoundaryKind::kEpochEnd;
  return ends && boundary.stage != Stage::kSanityCheck;
}

constexpr std::size_t kToldOneByOne = 8;  // keys at a boundary
constexpr std::size_t kToldInARun = 50;   // warnings

// What to say of many keys at once: the first in full, and others by name.
std::string summary_of(const Boundary& boundary, const std::vector<std::string>& names, const std::string& first) {
  constexpr std::size_t kNamed = 8;
  const auto others = std::span(names).first(std::min(names.size(), kNamed)).subspan(1);
  return format("{} keys were not logged by every rank until {}. The first: {}. The others: \"{}\"{}", names.size(),
                describe(boundary), first, join(others, "\", \""),
                names.size() > kNamed ? format(" and {} more", names.size() - kNamed) : "");
}

void warn_of(const std::vector<std::string>& told, const BoundaryPolicy& policy) {
  for (const std::string& text : told) {
    if (policy.coverage_warnings > kToldInARun) return;
    if (++policy.coverage_warnings > kToldInARun) {
      policy.warn("More keys are logged by some ranks only; this run says no more of them. strict_logging makes it an error.");
      return;
    }
    policy.warn(text +
                ". Log it on every rank, or pass .rank_zero_only = true. (Said once for each key; strict_logging makes it an "
                "error.)");
  }
}

void check_coverage(const Boundary& boundary, const Exchanged& exchanged, const BoundaryPolicy& policy) {
  const Level level = level_of(boundary.kind);
  std::vector<std::int64_t> batches;
  for (const FrameHeader& header : exchanged.headers) batches.push_back(header.batches);

  std::vector<std::string> names;
  std::vector<std::string> told;  // of the first ones
  for (std::size_t index = 0; index < exchanged.metrics.size(); ++index) {
    MetricEntry& entry = *exchanged.metrics[index].entry;
    if (entry.warned || exchanged.metrics[index].level != level) continue;
    std::string missing = missing_ranks(entry, level, exchanged.slots_of(index), batches);
    if (missing.empty()) continue;
    entry.warned = true;
    names.push_back(entry.plain_name);
    if (told.size() < kToldOneByOne) told.push_back(std::move(missing));
  }
  if (names.size() > told.size()) told = {summary_of(boundary, names, told.front())};
  if (policy.strict_logging && !told.empty()) {
    std::string errors;
    for (const std::string& text : told) errors += "\n  " + text;
    throw MisuseError("strict_logging: not every rank logged the same metrics until " + describe(boundary) + ":" + errors +
                      "\nLog them on every rank, or pass .rank_zero_only = true.");
  }
  if (policy.warn) warn_of(told, policy);
}

/// One metric at one boundary.
class MetricResult {
 public:
  MetricResult(MetricEntry& entry, Level level, std::span<const Slot> by_rank)
      : entry_(entry), level_(level), by_rank_(by_rank) {}

  bool is_logged() const { return std::any_of(by_rank_.begin(), by_rank_.end(), std::mem_fn(&Slot::present)); }
  bool is_logged_by(std::size_t rank) const { return by_rank_[rank].present(); }
  bool is_local() const { return !is_reduced() && !entry_.options.rank_zero_only; }

  double own_value(std::size_t rank) const {
    return level_ == Level::kStep ? by_rank_[rank].value : epoch_value(by_rank_[rank], entry_.options.reduce);
  }
  /// What counts for all: the reduced value; of a local one, the lowest rank's that logged it.
  double decided_value() const {
    if (is_reduced()) {
      return level_ == Level::kStep ? reduce_step(by_rank_, entry_.options.reduce)
                                    : reduce_epoch(by_rank_, entry_.options.reduce);
    }
    std::size_t rank = 0;
    while (!is_logged_by(rank)) ++rank;
    return own_value(rank);
  }
  const std::string& row_name() const { return entry_.name_of(level_); }

 private:
  bool is_reduced() const {
    return level_ == Level::kStep ? entry_.options.step_is_reduced() : entry_.options.epoch_is_reduced();
  }

  const MetricEntry& entry_;
  const Level level_;
  const std::span<const Slot> by_rank_;
};

void update_views(MetricViews& views, MetricEntry& entry, Level level, const MetricResult& result, std::size_t rank) {
  const double decided = result.decided_value();
  views.decide(entry, level, decided);
  if (result.is_local() && !result.is_logged_by(rank)) return;
  views.show(entry, level, result.is_local() ? result.own_value(rank) : decided);
}

void add_to_rows(BoundaryOutcome& outcome, const MetricEntry& entry, const MetricResult& result, std::size_t rank,
                 std::size_t ranks) {
  const std::string& name = result.row_name();
  outcome.logger_row[name] = result.decided_value();
  if (result.is_logged_by(rank)) outcome.local_row[name] = result.own_value(rank);
  for (std::size_t other = 0; other < ranks; ++other) {
    if (!result.is_logged_by(other)) continue;
    outcome.rank_rows[other][name] = result.own_value(other);
    if (entry.options.per_rank)
      outcome.logger_row[rank_prefix(static_cast<std::int64_t>(other)) + name] = result.own_value(other);
  }
}

}  // namespace

BoundaryOutcome conclude(const Boundary& boundary, const Exchanged& exchanged, int rank, const BoundaryPolicy& policy,
                         MetricViews& views) {
  const bool rows = has_rows(boundary);
  if (exchanged.ranks() > 1 && (boundary.kind == BoundaryKind::kTrainStep || boundary.kind == BoundaryKind::kEpochEnd)) {
    check_coverage(boundary, exchanged, policy);
  }

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
    for (std::size_t index = 0; index < exchanged.metrics.size(); ++index) {
      if (exchanged.metrics[index].level != level) continue;
      MetricEntry& entry = *exchanged.metrics[index].entry;
      const MetricResult result(entry, level, exchanged.slots_of(index));
      if (!result.is_logged()) continue;
      update_views(views, entry, level, result, own_rank);
      if (rows && level == level_of(boundary.kind) && entry.options.logger) {
        add_to_rows(outcome, entry, result, own_rank, exchanged.ranks());
      }
    }
  }
  return outcome;
}

}  // namespace levin::detail
