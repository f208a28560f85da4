#include "levin/core/protocol/boundary_exchange.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/control_group.h"

namespace levin::detail {

namespace {

/// What this rank has to say of a metric: of a step what is new, for the step's row or for who decides before it.
Slot own_slot(const MetricEntry& entry, Level level, BoundaryKind kind) {
  if (level == Level::kEpoch) return entry.epoch;
  const bool is_new = kind == BoundaryKind::kTrainStep ? entry.step_is_new : entry.step_is_unshared;
  return is_new ? entry.step : Slot{};
}

void send_for_object(const MetricEntry& entry, Level level) {
  if (entry.object == nullptr) return;
  if (level == Level::kEpoch) return entry.object->send();
  if (entry.step_state) entry.step_state->send();
}

/// What this rank has to say of a metric object: as ObjectLayout says.
std::vector<double> own_numbers(MetricEntry& entry, Level level) {
  if (entry.object == nullptr) return {};
  Slot& slot = level == Level::kStep ? entry.step : entry.epoch;
  if (!slot.present() || (level == Level::kStep && !entry.step_state)) return {};
  const MetricState& state = level == Level::kStep ? entry.step_state->read() : entry.object->state();
  slot.value = static_cast<double>(state.updates);
  std::vector<double> numbers = state.numbers;
  for (const std::string& rows : state.rows) numbers.push_back(static_cast<double>(rows.size()));
  const std::vector<double> values = entry.object->values_of(state);
  numbers.insert(numbers.end(), values.begin(), values.end());
  return numbers;
}

}  // namespace

const Exchanged& BoundaryExchange::meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                                        std::int64_t batches) {
  exchanged_.metrics.clear();
  table_.for_each_due(boundary, [&](MetricEntry& entry, Level level) { exchanged_.metrics.push_back({&entry, level}); });
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
  gather_rows();
  return exchanged_;
}

void BoundaryExchange::settle() {
  failure_ = nullptr;
  const auto for_each_due = [&](const auto& visit) {
    for (const ExchangedMetric& metric : exchanged_.metrics) visit(*metric.entry, metric.level);
    for (MetricEntry* entry : table_.new_entries()) {
      for (const Level level : {Level::kStep, Level::kEpoch}) visit(*entry, level);
    }
  };
  try {
    DeferredValues values;
    for_each_due([&](const MetricEntry& entry, Level level) {
      values.add(entry.deferred(level));
      send_for_object(entry, level);
    });
    const auto others = std::exchange(read_along_, {});
    for (const auto& other : others) values.add(other);
    values.read();
    for_each_due([](MetricEntry& entry, Level level) { entry.settle(level, entry.options.reduce); });
    // That which has been sent for last comes first: the others are there then.
    for (auto metric = exchanged_.metrics.rbegin(); metric != exchanged_.metrics.rend(); ++metric)
      metric->own_numbers = own_numbers(*metric->entry, metric->level);
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
  for (MetricEntry* entry : table_.new_entries()) {
    NewMetric& metric = new_metrics.metrics.emplace_back(
        NewMetric{entry->hook, entry->dataloader_idx, entry->name, entry->options, entry->site, {}, {}});
    if (!failure_) metric.step.numbers = own_numbers(*entry, Level::kStep);
    if (!failure_) metric.epoch.numbers = own_numbers(*entry, Level::kEpoch);
    metric.step.slot = own_slot(*entry, Level::kStep, kind);
    metric.epoch.slot = entry->epoch;
  }
  return new_metrics;
}

void BoundaryExchange::gather_frames(const FrameHeader& header) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  frame_.clear();
  append_number(frame_, header);
  std::size_t used = 0;
  for (const ExchangedMetric& metric : exchanged_.metrics) {
    const MetricEntry& entry = *metric.entry;
    append_number(frame_, own_slot(entry, metric.level, header.kind));
    used += entry.slots();
    if (entry.object == nullptr) continue;
    std::vector<double> numbers = metric.own_numbers;  // none after a failure
    numbers.resize(2 * (entry.slots() - 1));
    for (const double number : numbers) append_number(frame_, number);
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
    const MetricEntry& entry = *metric.entry;
    for (ByteReader& reader : readers) {
      metric.slots.push_back(reader.number<Slot>());
      if (entry.object == nullptr) continue;
      const std::string_view bytes = reader.take((entry.slots() - 1) * sizeof(Slot));
      const std::size_t before = metric.numbers.size();
      metric.numbers.resize(before + entry.layout.size());
      std::memcpy(metric.numbers.data() + before, bytes.data(), entry.layout.size() * sizeof(double));
    }
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
  for (const MergedMetric& merged : merge(by_rank)) {
    const std::size_t first_rank = first_rank_of(merged);
    const NewMetric& first = *merged[first_rank];
    const MetricKey key{first.hook, first.name, first.dataloader_idx};
    MetricEntry* entry = table_.find(key);
    if (entry == nullptr) entry = &table_.add(key, first.options, first.site, static_cast<int>(first_rank));
    if (entry->options.object != 0 && entry->object == nullptr) {
      throw DesyncError(
          format("rank {} logs a metric object as \"{}\" ({}), and the module of another rank has none of its name: every rank "
                 "makes the same metric objects, in its module's constructor.",
                 first_rank, first.name, first.site));
    }
    // One description on all ranks, so that texts about it are the same.
    entry->site = first.site;
    entry->site_rank = static_cast<int>(first_rank);
    table_.agree(*entry);
    const auto add = [&](Level level, Told NewMetric::*of_level) {
      ExchangedMetric& metric = exchanged_.metrics.emplace_back(ExchangedMetric{entry, level});
      for (const NewMetric* const of_rank : merged) {
        Told told = of_rank == nullptr ? Told() : of_rank->*of_level;
        metric.slots.push_back(told.slot);
        told.numbers.resize(entry->object == nullptr ? 0 : entry->layout.size());
        metric.numbers.insert(metric.numbers.end(), told.numbers.begin(), told.numbers.end());
      }
    };
    if (entry->options.on_step && entry->group == MetricGroup::kTrain && carries_steps(boundary.kind)) {
      add(Level::kStep, &NewMetric::step);
    }
    if (entry->options.on_epoch && entry->group == group_of(boundary.stage) && level_of(boundary.kind) == Level::kEpoch) {
      add(Level::kEpoch, &NewMetric::epoch);
    }
  }
  table_.clear_new_entries();
}

/// Rows of metric objects, which are as long as the data: in chunks, of which there are as many as the longest rank needs.
/// Every rank knows from the frames how long those of all are.
void BoundaryExchange::gather_rows() {
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  const std::size_t ranks = exchanged_.ranks();
  std::vector<ExchangedMetric*> longer;  // those of which there are other rows than before
  std::vector<std::uint64_t> bytes(ranks);
  std::string mine;
  for (ExchangedMetric& metric : exchanged_.metrics) {
    MetricEntry& entry = *metric.entry;
    if (entry.object == nullptr || entry.layout.rows == 0) continue;
    std::vector<std::int64_t> updates;
    for (const Slot& slot : metric.slots) updates.push_back(slot.present() ? static_cast<std::int64_t>(slot.value) : -1);
    if (metric.level == Level::kEpoch && entry.all_ranks && entry.all_ranks_updates == updates) continue;
    if (metric.level == Level::kEpoch) entry.all_ranks_updates = std::move(updates);
    longer.push_back(&metric);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const double size : metric.sizes_of_rows(rank)) {
        if (!(size >= 0 && size <= kMostRowBytes))
          throw DesyncError(format("rank {} announces rows that cannot be, at {}", rank, what_));
        bytes[rank] += static_cast<std::uint64_t>(size);
      }
    }
    if (!metric.slots[static_cast<std::size_t>(group_.rank())].present()) continue;
    const MetricState& state = metric.level == Level::kStep ? entry.step_state->read() : entry.object->state();
    for (const std::string& rows : state.rows) mine += rows;
  }
  const std::uint64_t longest = longer.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
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
  for (ExchangedMetric* const metric : longer) {
    metric->rows.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const double size : metric->sizes_of_rows(rank)) {
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

namespace {

/// "rank_3_": what the key of a value that is one rank's own begins with.
std::string rank_prefix(std::int64_t rank) { return format("rank_{}_", rank); }

/// Looks whether all ranks that could log a metric did. Gives "" when they did, else a text that names the key, the ranks with
/// and without it, the hook and the call site; the same on every rank.
/// Excused are ranks without a batch (batches[rank] == 0) from what is logged in the hooks of a batch, every rank but 0 from
/// what is rank_zero_only, and all others from `rank_{r}_…` logged by rank r.
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
  for (const ExchangedMetric& metric : exchanged.metrics) {
    MetricEntry& entry = *metric.entry;
    if (entry.warned || metric.level != level) continue;
    std::string missing = missing_ranks(entry, level, metric.slots, batches);
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

/// Of an object's values the slots hold what each rank computed.
double own_value(const MetricEntry& entry, const Slot& slot, Level level) {
  return level == Level::kStep || entry.options.object != 0 ? slot.value : epoch_value(slot, entry.options.reduce);
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
  for (std::size_t rank = 0; rank < metric.slots.size(); ++rank) {
    if (!metric.slots[rank].present()) continue;
    const auto numbers = metric.numbers_of(rank).first(metric.entry->layout.numbers);
    of_rank.numbers.assign(numbers.begin(), numbers.end());
    if (!metric.rows.empty()) of_rank.rows = metric.rows[rank];
    of_rank.updates = static_cast<std::int64_t>(metric.slots[rank].value);
    object.merge(total, of_rank);
  }
  return total;
}

/// The values of an object, as all ranks have them together.
std::vector<double> values_of_all_ranks(const ExchangedMetric& metric) {
  MetricEntry& entry = *metric.entry;
  if (metric.level == Level::kStep) return entry.object->values_of(merged_state(metric));
  const bool known = entry.layout.rows > 0 && metric.rows.empty() && entry.all_ranks != nullptr;
  if (!known) entry.all_ranks = std::make_shared<const MetricState>(merged_state(metric));
  if (entry.options.is_reduced(Level::kEpoch)) entry.object->show_all_ranks(entry.all_ranks);
  return entry.object->values_of(*entry.all_ranks);
}

/// `take`: is given the entry that has the names of an object's value, what each rank computed, and what counts.
template <class Take>
void for_each_value(const ExchangedMetric& metric, const Take& take) {
  MetricEntry& entry = *metric.entry;
  const std::vector<double> of_all = values_of_all_ranks(metric);
  std::vector<Slot> own = metric.slots;
  for (std::size_t value = 0; value < entry.values.size(); ++value) {
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      own[rank].value = metric.numbers_of(rank)[entry.layout.numbers + entry.layout.rows + value];
    }
    take(entry.values[value], own, decided_value(entry, own, metric.level, of_all.at(value)));
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
      if (metric.level != level || std::ranges::none_of(metric.slots, &Slot::present)) continue;
      if (metric.entry->object == nullptr) {
        take(*metric.entry, metric.slots, decided_value(*metric.entry, metric.slots, level));
      } else {
        for_each_value(metric, take);
      }
    }
  }
  outcome.local_row = outcome.rank_rows[own_rank];
  return outcome;
}

}  // namespace levin::detail
