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
  const auto for_each_due = [&](const auto& visit) {
    for (const DueMetric& due : exchanged_.metrics) visit(*due.entry, due.level);
    for (MetricEntry* entry : table_.new_entries()) {
      for (const Level level : {Level::kStep, Level::kEpoch}) visit(*entry, level);
    }
  };
  try {
    DeferredValues values;
    for_each_due([&](const MetricEntry& entry, Level level) { values.add(entry.deferred(level)); });
    values.read();
    for_each_due([](MetricEntry& entry, Level level) { entry.settle(level, entry.options.reduce); });
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
  const std::string value = entry.options.is_reduced(level)
                                ? format("the {} over the ranks that logged it", reduce_name(entry.options.reduce))
                                : format("rank {}'s", with.front());
  return format("log(\"{}\") in {} ({}) ran on {} and not on {}: its value is {}", entry.plain_name, hook_name(entry.hook),
                entry.site, rank_list(with), rank_list(without), value);
}

namespace {

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
    throw MisuseError(
        format("strict_logging: not every rank logged the same metrics until {}:\n  {}\nLog them on every rank, or "
               "pass .rank_zero_only = true.",
               describe(boundary), join(told, "\n  ")));
  }
  if (policy.warn) warn_of(told, policy);
}

double own_value(const Slot& slot, Level level, Reduce reduce) {
  return level == Level::kStep ? slot.value : epoch_value(slot, reduce);
}

/// What counts for all: the reduced value; of a local one, the lowest rank's that logged it.
double decided_value(std::span<const Slot> by_rank, Level level, const MetricOptions& options) {
  if (options.is_reduced(level))
    return level == Level::kStep ? reduce_step(by_rank, options.reduce) : reduce_epoch(by_rank, options.reduce);
  return own_value(*std::find_if(by_rank.begin(), by_rank.end(), std::mem_fn(&Slot::present)), level, options.reduce);
}

void add_to_rows(BoundaryOutcome& outcome, const MetricEntry& entry, Level level, std::span<const Slot> by_rank,
                 double decided) {
  const std::string& name = entry.name_of(level);
  outcome.logger_row[name] = decided;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!by_rank[rank].present()) continue;
    const double value = own_value(by_rank[rank], level, entry.options.reduce);
    outcome.rank_rows[rank][name] = value;
    if (entry.options.per_rank) outcome.logger_row[rank_prefix(static_cast<std::int64_t>(rank)) + name] = value;
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
    for (std::size_t index = 0; index < exchanged.metrics.size(); ++index) {
      if (exchanged.metrics[index].level != level) continue;
      MetricEntry& entry = *exchanged.metrics[index].entry;
      const std::span<const Slot> by_rank = exchanged.slots_of(index);
      if (std::none_of(by_rank.begin(), by_rank.end(), std::mem_fn(&Slot::present))) continue;
      const double decided = decided_value(by_rank, level, entry.options);
      views.decide(entry, level, decided);
      const bool is_local = !entry.options.is_reduced(level) && !entry.options.rank_zero_only;
      if (!is_local) views.show(entry, level, decided);
      if (is_local && by_rank[own_rank].present())
        views.show(entry, level, own_value(by_rank[own_rank], level, entry.options.reduce));
      if (rows && level == level_of(boundary.kind) && entry.options.logger)
        add_to_rows(outcome, entry, level, by_rank, decided);
    }
  }
  outcome.local_row = outcome.rank_rows[own_rank];
  return outcome;
}

}  // namespace levin::detail
