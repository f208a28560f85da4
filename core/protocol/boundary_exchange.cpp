#include "levin/core/protocol/boundary_exchange.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/metric_recorder.h"

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
      due.level == Level::kStep ? settle_step(*due.entry) : settle_epoch(*due.entry, due.entry->options.reduce);
    for (MetricEntry* entry : table_.new_entries()) {
      settle_step(*entry);
      settle_epoch(*entry, entry->options.reduce);
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
  frames_.prepare(ranks, table_.frame_slots());
  frames_.write_header(header);
  for (std::size_t index = 0; index < exchanged_.metrics.size(); ++index) {
    const DueMetric& due = exchanged_.metrics[index];
    frames_.write_slot(index, own_slot(*due.entry, due.level, header.kind));
  }
  gather(frames_.mine(), frames_.all());

  exchanged_.headers.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) exchanged_.headers[rank] = frames_.header(rank);
  require_same_boundary(exchanged_.headers);
  exchanged_.slots.clear();
  for (std::size_t index = 0; index < exchanged_.metrics.size(); ++index) {
    for (std::size_t rank = 0; rank < ranks; ++rank) exchanged_.slots.push_back(frames_.slot(rank, index));
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

}  // namespace levin::detail
