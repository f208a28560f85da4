#include "levin/core/protocol/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/boundary_exchange.h"

namespace levin::detail {

namespace {

/// Empty for an unknown kind.
std::string_view name_of(BoundaryKind kind) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(BoundaryKind::kEnd) + 1> kNames = {
      "the setup",
      "the start of an epoch",
      "a batch",
      "a step",
      "a decision on a metric",
      "the last batch of an epoch",
      "the end of an epoch",
      "the end of an evaluation",
      "a pause",
      "a checkpoint",
      "a call of the session",
      "the end"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "";
}

/// What is wrong with a header; empty for nothing. Bytes that are not a header may name anything, and claim any size.
std::string problem_of(const FrameHeader& header) {
  if (header.magic != FrameHeader::kMagic) return "in an exchange that is not a boundary";
  if (header.version != FrameHeader::kVersion) {
    return format("running another version of levin (protocol {})", header.version);
  }
  if (header.new_metrics_bytes > kMostNewMetricsBytes) {
    return format("announcing {} bytes of new metrics, where the limit is {}", header.new_metrics_bytes, kMostNewMetricsBytes);
  }
  const bool can_be = !name_of(header.kind).empty() && stage_name(header.stage) != "unknown" && header.hook < Hook::kCount &&
                      header.failed <= 1;
  return can_be ? "" : "sending something other than a boundary's header";
}

/// What has to be the same on all ranks.
auto place_of(const FrameHeader& header) {
  return std::tuple(header.kind, header.stage, header.epoch, header.step, header.sequence, header.agreed_hash, header.slots);
}

std::string position_of(const FrameHeader& header, const FrameHeader& first) {
  if (std::string problem = problem_of(header); !problem.empty()) return problem;
  std::string position =
      format("in {}, hook {}, exchange number {}", describe(header.boundary()), hook_name(header.hook), header.sequence);
  if (header.sequence == first.sequence && header.agreed_hash != first.agreed_hash)
    position += ", with other metrics agreed on";
  return position;
}

}  // namespace

std::string describe(const Boundary& boundary) {
  const std::string_view name = name_of(boundary.kind);
  if (name.empty()) return format("an unknown boundary (epoch {}, step {})", boundary.epoch, boundary.step);
  return format("{} of {} (epoch {}, step {})", name, stage_name(boundary.stage), boundary.epoch, boundary.step);
}

void require_same_boundary(const std::vector<FrameHeader>& headers) {
  bool same = true;
  std::vector<std::pair<std::string, std::vector<int>>> positions;  // each with its ranks, in the order of ranks
  const FrameHeader& first = headers.front();
  for (const FrameHeader& header : headers) {
    same = same && problem_of(header).empty() && place_of(header) == place_of(first);
  }
  if (same) return;

  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const std::string position = position_of(headers[rank], first);
    auto place = std::find_if(positions.begin(), positions.end(), [&](const auto& known) { return known.first == position; });
    if (place == positions.end()) place = positions.insert(place, {position, {}});
    place->second.push_back(static_cast<int>(rank));
  }

  std::string text = "the ranks are not at the same boundary:";
  for (const auto& [position, ranks] : positions) {
    text += format("\n  {}{}{}", rank_list(ranks), ranks.size() == 1 ? " is " : " are ", position);
  }
  text +=
      "\nEvery rank must run the same loop: look for a return, a break or an exception that only some ranks take, and for "
      "Trainer options that differ by rank.";
  throw DesyncError(text);
}

// Weights of a metric object's slot.
namespace {
constexpr double kSlotLogged = 0;
constexpr double kSlotLoggedAndKnown = 1;
constexpr double kSlotUnlogged = -1;
constexpr double kSlotUnloggedButKnown = -2;
}  // namespace

Slot object_slot(bool is_logged, std::int64_t updates, bool knows_rows) {
  if (!is_logged) return {0, knows_rows ? kSlotUnloggedButKnown : kSlotUnlogged};
  return {static_cast<double>(updates), knows_rows ? kSlotLoggedAndKnown : kSlotLogged};
}

bool knows_rows(const Slot& slot) { return slot.weight == kSlotLoggedAndKnown || slot.weight == kSlotUnloggedButKnown; }

void append_payload(std::vector<std::byte>& frame, const MetricPayload& payload, const MetricEntry& entry) {
  append_number(frame, payload.slot);
  std::vector<double> numbers = payload.numbers;
  numbers.resize(2 * (entry.slots() - 1));
  for (const double number : numbers) append_number(frame, number);
}

MetricPayload read_payload(ByteReader& frame, const MetricEntry& entry) {
  MetricPayload payload{.slot = frame.number<Slot>()};
  const std::string_view bytes = frame.take((entry.slots() - 1) * sizeof(Slot));
  if (!payload.slot.present()) return payload;
  payload.numbers.resize(entry.layout.size());
  if (!payload.numbers.empty()) std::memcpy(payload.numbers.data(), bytes.data(), entry.layout.size() * sizeof(double));
  return payload;
}

constexpr const char* kDamaged = "the description of metrics arrived damaged: do all ranks run the same build of levin?";

std::vector<std::byte> pack(const NewMetrics& new_metrics) {
  std::vector<std::byte> bytes;
  append_text(bytes, new_metrics.failure);
  append_number(bytes, static_cast<std::uint32_t>(new_metrics.metrics.size()));
  for (const NewMetric& metric : new_metrics.metrics) {
    append_number(bytes, metric.hook);
    append_number(bytes, metric.dataloader_idx);
    append_text(bytes, metric.name);
    append_number(bytes, metric.options.pack());
    append_number(bytes, metric.options.object);
    append_number(bytes, metric.layout);
    append_text(bytes, metric.site);
    append_number(bytes, metric.loader.index);
    for (const MetricPayload* payload : {&metric.step, &metric.epoch}) {
      append_number(bytes, payload->slot);
      append_number(bytes, static_cast<std::uint32_t>(payload->numbers.size()));
      for (const double number : payload->numbers) append_number(bytes, number);
    }
  }
  return bytes;
}

NewMetrics unpack_new_metrics(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, kDamaged);
  NewMetrics new_metrics;
  new_metrics.failure = reader.text();
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t index = 0; index < count; ++index) {
    NewMetric& metric = new_metrics.metrics.emplace_back();
    metric.hook = reader.number<Hook>();
    metric.dataloader_idx = reader.number<std::int32_t>();
    metric.name = reader.text();
    const auto options = MetricOptions::unpack(reader.number<std::uint16_t>());
    if (!options || metric.hook >= Hook::kCount || group_of(metric.hook) == MetricGroup::kCount) throw DesyncError(kDamaged);
    metric.options = *options;
    metric.options.object = reader.number<std::uint32_t>();
    metric.layout = reader.number<ObjectLayout>();
    metric.site = reader.text();
    metric.loader.index = reader.number<std::int32_t>();
    for (MetricPayload* payload : {&metric.step, &metric.epoch}) {
      payload->slot = reader.number<Slot>();
      const auto size = reader.number<std::uint32_t>();
      const bool has_numbers = metric.options.object != 0 && payload->slot.present();
      if (size != (has_numbers ? metric.layout.size() : 0) || size > reader.left() / sizeof(double))
        throw DesyncError(kDamaged);
      for (std::uint32_t number = 0; number < size; ++number) payload->numbers.push_back(reader.number<double>());
    }
  }
  if (reader.left() > 0) throw DesyncError(kDamaged);
  return new_metrics;
}

std::size_t first_rank_of(const MergedMetric& metric) {
  const auto knows = [](const NewMetric* of_rank) { return of_rank != nullptr; };
  return static_cast<std::size_t>(std::ranges::find_if(metric, knows) - metric.begin());
}

std::vector<MergedMetric> merge(const std::vector<NewMetrics>& by_rank) {
  std::vector<MergedMetric> merged;
  std::unordered_map<MetricKey, std::size_t, MetricKeyHash> places;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const NewMetric& metric : by_rank[rank].metrics) {
      // The keys' names live in by_rank, which outlasts the map.
      const auto [place, is_new] = places.try_emplace({metric.hook, metric.name, metric.dataloader_idx}, merged.size());
      if (is_new) merged.emplace_back(by_rank.size());
      MergedMetric& known = merged[place->second];
      known[rank] = &metric;
      const std::size_t first = first_rank_of(known);
      const bool is_alike = known[first]->layout == metric.layout;
      if (known[first]->options == metric.options && is_alike) continue;
      if (!is_alike && known[first]->options == metric.options) {
        throw of_all_ranks(
            MisuseError(format("log(\"{}\") in {} is of a metric object that differs by rank: {} on rank {} ({}), {} on rank "
                               "{} ({}). Make the same metric objects on every rank, with the same options.",
                               metric.name, hook_name(metric.hook), known[first]->layout.str(), first, known[first]->site,
                               metric.layout.str(), rank, metric.site)));
      }
      throw of_all_ranks(MisuseError(
          format("log(\"{}\") in {} has different options on different ranks: {} on rank {} ({}), {} on rank {} ({}). Give "
                 "one key the same options everywhere.",
                 metric.name, hook_name(metric.hook), known[first]->options.str(), first, known[first]->site,
                 metric.options.str(), rank, metric.site)));
    }
  }
  return merged;
}

}  // namespace levin::detail
