#include "levin/core/protocol/new_metrics.h"

#include <unordered_map>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

namespace {

constexpr const char* kDamaged = "the description of metrics arrived damaged: do all ranks run the same build of levin?";

}  // namespace

std::vector<std::byte> pack(const NewMetrics& new_metrics) {
  std::vector<std::byte> bytes;
  append_text(bytes, new_metrics.failure);
  append_number(bytes, static_cast<std::uint32_t>(new_metrics.metrics.size()));
  for (const NewMetric& metric : new_metrics.metrics) {
    append_number(bytes, metric.hook);
    append_number(bytes, metric.dataloader_idx);
    append_text(bytes, metric.name);
    append_number(bytes, metric.options.pack());
    append_text(bytes, metric.site);
    append_number(bytes, metric.step);
    append_number(bytes, metric.epoch);
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
    if (!options || metric.hook >= Hook::kCount) throw DesyncError(kDamaged);
    metric.options = *options;
    metric.site = reader.text();
    metric.step = reader.number<Slot>();
    metric.epoch = reader.number<Slot>();
  }
  if (reader.left() > 0) throw DesyncError(kDamaged);
  return new_metrics;
}

std::vector<MergedMetric> merge(const std::vector<NewMetrics>& by_rank) {
  std::vector<MergedMetric> merged;
  std::unordered_map<MetricKey, std::size_t, MetricKeyHash> places;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const NewMetric& metric : by_rank[rank].metrics) {
      // The keys' names live in by_rank, which outlasts the map.
      const auto [place, is_new] = places.try_emplace({metric.hook, metric.name, metric.dataloader_idx}, merged.size());
      if (is_new)
        merged.push_back(
            {metric, static_cast<int>(rank), std::vector<Slot>(by_rank.size()), std::vector<Slot>(by_rank.size())});
      MergedMetric& known = merged[place->second];
      if (!(known.metric.options == metric.options)) {
        throw MisuseError(
            format("log(\"{}\") in {} has different options on different ranks: {} on rank {} ({}), {} on rank {} ({}). Give "
                   "one key the same options everywhere.",
                   metric.name, hook_name(metric.hook), known.metric.options.str(), known.first_rank, known.metric.site,
                   metric.options.str(), rank, metric.site));
      }
      known.step[rank] = metric.step;
      known.epoch[rank] = metric.epoch;
    }
  }
  return merged;
}

}  // namespace levin::detail
