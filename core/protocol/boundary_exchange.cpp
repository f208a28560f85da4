#include "levin/core/protocol/boundary_exchange.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/protocol/metric_recorder.h"

namespace levin::detail {

const Exchanged& BoundaryExchange::meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                                        std::int64_t batches) {
  const Level level = level_of(boundary.kind);
  const MetricGroup group = group_of(boundary.stage);
  const std::vector<MetricEntry*>& layout = table_.layout(group, level);
  settle(level, layout);

  std::vector<std::byte> new_metrics;
  if (failure_ || !table_.new_entries().empty()) new_metrics = pack(own_new_metrics());
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
                 .payload = payload},
                level, layout);
  ++sequence_;
  // Decided by the same bytes on every rank: nobody is left waiting in the second exchange.
  const bool any_new_metrics = std::any_of(exchanged_.headers.begin(), exchanged_.headers.end(),
                                           [](const FrameHeader& header) { return header.new_metrics_bytes > 0; });
  if (any_new_metrics) add_new_metrics(exchange_new_metrics(new_metrics), group, level);
  return exchanged_;
}

void BoundaryExchange::settle(Level level, const std::vector<MetricEntry*>& layout) {
  failure_ = nullptr;
  try {
    for (MetricEntry* entry : layout) level == Level::kStep ? settle_step(*entry) : settle_epoch(*entry, entry->options.reduce);
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

NewMetrics BoundaryExchange::own_new_metrics() const {
  NewMetrics new_metrics;
  if (failure_) new_metrics.failure = failure_text_;
  for (const MetricEntry* entry : table_.new_entries()) {
    new_metrics.metrics.push_back({entry->hook, entry->dataloader_idx, entry->name, entry->options, entry->site,
                                   entry->step_is_new ? entry->step : Slot{}, entry->epoch});
  }
  return new_metrics;
}

void BoundaryExchange::gather_frames(const FrameHeader& header, Level level, const std::vector<MetricEntry*>& layout) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  frames_.prepare(ranks, table_.frame_slots());
  frames_.write_header(header);
  for (std::size_t index = 0; index < layout.size(); ++index) {
    const MetricEntry& entry = *layout[index];
    if (level == Level::kEpoch) {
      frames_.write_slot(index, entry.epoch);
    } else if (entry.step_is_new) {
      frames_.write_slot(index, entry.step);
    }
  }
  gather(frames_.mine(), frames_.all());

  exchanged_.headers.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) exchanged_.headers[rank] = frames_.header(rank);
  require_same_boundary(exchanged_.headers);
  exchanged_.metrics = layout;
  exchanged_.slots.clear();
  for (std::size_t index = 0; index < layout.size(); ++index) {
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

void BoundaryExchange::add_new_metrics(const std::vector<NewMetrics>& by_rank, MetricGroup group, Level level) {
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
    const bool due = level == Level::kStep ? entry->options.on_step : level == Level::kEpoch && entry->options.on_epoch;
    if (!due || entry->group != group) continue;
    exchanged_.metrics.push_back(entry);
    const std::vector<Slot>& slots = level == Level::kStep ? merged.step : merged.epoch;
    exchanged_.slots.insert(exchanged_.slots.end(), slots.begin(), slots.end());
  }
  table_.clear_new_entries();
}

void BoundaryExchange::gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  ++collectives_;
  group_.all_gather(mine, all, what_.c_str());
}

}  // namespace levin::detail
