#include "levin/core/protocol/boundary_exchange.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/control_group.h"

namespace levin::detail {

const Exchanged& BoundaryExchange::meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                                        std::int64_t batches) {
  exchanged_.metrics.clear();
  table_.for_each_due(boundary, [&](MetricEntry& entry, Level level) { exchanged_.metrics.push_back({&entry, level}); });
  own_new_.clear();
  for (MetricEntry* entry : table_.new_entries()) {
    for (const Level level : {Level::kStep, Level::kEpoch}) {
      if (entry->is_due(boundary, level)) own_new_.push_back({entry, level});
    }
  }
  settle(boundary.kind);

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
                 .payload = payload});
  ++sequence_;
  // The same bytes decide on every rank: no rank waits alone in the second exchange.
  const bool any_new_metrics = std::any_of(exchanged_.headers.begin(), exchanged_.headers.end(),
                                           [](const FrameHeader& header) { return header.new_metrics_bytes > 0; });
  if (any_new_metrics) add_new_metrics(exchange_new_metrics(new_metrics), boundary);
  gather_rows();
  return exchanged_;
}

void BoundaryExchange::settle(BoundaryKind kind) {
  failure_ = nullptr;
  const auto for_each = [&](const auto& visit) {
    for (const ExchangedMetric& metric : exchanged_.metrics) visit(*metric.entry, metric.level);
    for (MetricEntry* entry : table_.new_entries()) {
      for (const Level level : {Level::kStep, Level::kEpoch}) visit(*entry, level);
    }
  };
  try {
    DeferredValues values;
    for_each([&](const MetricEntry& entry, Level level) { values.add(entry.deferred(level)); });
    for (const ExchangedMetric& metric : exchanged_.metrics) metric.send_for_state();
    for (const ExchangedMetric& metric : own_new_) metric.send_for_state();
    const auto others = std::exchange(read_along_, {});
    for (const auto& other : others) values.add(other);
    values.read();
    for_each([](MetricEntry& entry, Level level) { entry.settle(level, entry.options.reduce); });
    // The last request is read first: by then the earlier ones have arrived.
    for (auto* const metrics : {&own_new_, &exchanged_.metrics}) {
      for (auto metric = metrics->rbegin(); metric != metrics->rend(); ++metric) metric->make_payload(kind);
    }
    return;
  } catch (const std::exception& error) {
    failure_ = std::current_exception();
    failure_text_ = error.what();
  } catch (...) {
    failure_ = std::current_exception();
    failure_text_ = "an exception of unknown type";
  }
  for (ExchangedMetric& metric : own_new_) metric.clear_payload();
  for (ExchangedMetric& metric : exchanged_.metrics) metric.clear_payload();
}

NewMetrics BoundaryExchange::own_new_metrics() const {
  NewMetrics new_metrics;
  if (failure_) new_metrics.failure = failure_text_;
  auto own = own_new_.begin();
  for (const MetricEntry* entry : table_.new_entries()) {
    NewMetric& metric = new_metrics.metrics.emplace_back(NewMetric{
        entry->hook, entry->dataloader_idx, entry->name, entry->options, entry->layout, entry->site, entry->loader, {}, {}});
    for (; own != own_new_.end() && own->entry == entry; ++own) metric.payload(own->level) = own->own;
  }
  return new_metrics;
}

void BoundaryExchange::gather_frames(const FrameHeader& header) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  frame_.clear();
  append_number(frame_, header);
  std::size_t used = 0;
  for (const ExchangedMetric& metric : exchanged_.metrics) {
    append_payload(frame_, metric.own, *metric.entry);
    used += metric.entry->slots();
  }
  for (; used < table_.frame_slots(); ++used) append_number(frame_, Slot{});
  frames_.resize(ranks * frame_.size());
  gather(frame_, frames_);

  std::vector<ByteReader> readers;
  exchanged_.headers.clear();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    readers.emplace_back(std::span(frames_).subspan(rank * frame_.size(), frame_.size()), "a frame is too short");
    exchanged_.headers.push_back(readers.back().number<FrameHeader>());
  }
  require_same_boundary(exchanged_.headers);
  for (ExchangedMetric& metric : exchanged_.metrics) {
    for (ByteReader& reader : readers) metric.payloads.push_back(read_payload(reader, *metric.entry));
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
  std::map<std::pair<const MetricEntry*, Level>, const std::vector<std::string>*> own_rows;
  for (const ExchangedMetric& own : own_new_) own_rows[{own.entry, own.level}] = own.own_rows;
  for (const MergedMetric& merged : merge(by_rank)) {
    const std::size_t first_rank = first_rank_of(merged);
    const NewMetric& first = *merged[first_rank];
    const MetricKey key{first.hook, first.name, first.dataloader_idx};
    MetricEntry* entry = table_.find(key);
    if (entry == nullptr) entry = &table_.add(key, first.options, first.site, static_cast<int>(first_rank));
    if (entry->is_of_object() && entry->object == nullptr) {
      throw DesyncError(
          format("rank {} logs a metric object as \"{}\" ({}), but another rank's module has none of its name: make the same "
                 "metric objects on every rank, in the module's constructor.",
                 first_rank, first.name, first.site));
    }
    if (entry->layout != first.layout) {
      throw DesyncError(
          format("rank {} logs a metric object as \"{}\" ({}) with {}, but another rank's has {}: make the same metric objects "
                 "on every rank, with the same options.",
                 first_rank, first.name, first.site, first.layout.str(), entry->layout.str()));
    }
    // One description on all ranks, so that texts about it are the same.
    entry->site = first.site;
    entry->site_rank = static_cast<int>(first_rank);
    entry->loader = {};
    for (const NewMetric* const of_rank : merged) {
      if (of_rank != nullptr) entry->loader.add(of_rank->loader.index);
    }
    table_.agree(*entry);
    for (const Level level : {Level::kStep, Level::kEpoch}) {
      if (!entry->is_due(boundary, level)) continue;
      ExchangedMetric& metric = exchanged_.metrics.emplace_back(ExchangedMetric{entry, level});
      const auto own = own_rows.find({entry, level});
      if (own != own_rows.end()) metric.own_rows = own->second;
      for (const NewMetric* const of_rank : merged)
        metric.payloads.push_back(of_rank == nullptr ? MetricPayload() : of_rank->payload(level));
    }
  }
  table_.clear_new_entries();
}

/// Rows of metric objects, which are as long as the data: in chunks, of which there are as many as the longest rank needs.
/// Every rank knows from all payloads which rows come, and how long those of each rank are.
void BoundaryExchange::gather_rows() {
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  const std::size_t ranks = exchanged_.ranks();
  std::vector<ExchangedMetric*> coming;
  std::vector<std::uint64_t> bytes(ranks);
  std::string mine;
  for (ExchangedMetric& metric : exchanged_.metrics) {
    MetricEntry& entry = *metric.entry;
    if (entry.layout.rows == 0 || !metric.any_present()) continue;
    metric.rows_are_known =
        std::ranges::all_of(metric.payloads, [](const MetricPayload& payload) { return knows_rows(payload.slot); });
    if (metric.rows_are_known) continue;
    coming.push_back(&metric);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const double size : metric.payloads[rank].sizes_of_rows(entry.layout)) {
        if (!(size >= 0 && size <= kMostRowBytes))
          throw DesyncError(format("rank {} announces impossible rows, at {}", rank, what_));
        bytes[rank] += static_cast<std::uint64_t>(size);
      }
    }
    if (metric.own_rows != nullptr) {
      for (const std::string& rows : *metric.own_rows) mine += rows;
    }
    if (metric.level != Level::kEpoch) continue;
    entry.sent_changes = metric.own_rows == nullptr ? std::nullopt : std::optional(entry.object->changes());
  }
  const std::uint64_t longest = coming.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  std::vector<std::string> by_rank(ranks);
  what_ = "the rows of metrics at " + what_;
  std::vector<std::byte> all;
  for (std::uint64_t begin = 0; begin < longest; begin += kChunk) {
    const std::size_t size = std::min<std::uint64_t>(kChunk, longest - begin);
    std::string chunk = begin < mine.size() ? mine.substr(begin, size) : "";
    chunk.resize(size);
    all.resize(size * ranks);
    gather(std::as_bytes(std::span(chunk)), all);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (begin >= bytes[rank]) continue;
      const auto* const part = reinterpret_cast<const char*>(all.data() + rank * size);
      by_rank[rank].append(part, std::min<std::uint64_t>(size, bytes[rank] - begin));
    }
  }
  std::vector<std::size_t> read(ranks);
  for (ExchangedMetric* const metric : coming) {
    metric->rows.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const double size : metric->payloads[rank].sizes_of_rows(metric->entry->layout)) {
        metric->rows[rank].push_back(by_rank[rank].substr(read[rank], static_cast<std::size_t>(size)));
        read[rank] += static_cast<std::size_t>(size);
      }
    }
  }
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

}  // namespace levin::detail
