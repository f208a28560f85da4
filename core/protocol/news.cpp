#include "levin/core/protocol/news.h"

#include <cstring>
#include <type_traits>
#include <unordered_map>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

namespace {

class Writer {
 public:
  template <class Number>
  void number(const Number& value) {
    static_assert(std::is_trivially_copyable_v<Number>);
    append(&value, sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(number<std::uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[noreturn]] static void damaged() {
    throw DesyncError("the description of metrics arrived damaged: do all ranks run the same build of levin?");
  }
  void end() const {
    if (!rest_.empty()) damaged();
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) damaged();
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<const std::byte> rest_;
};

}  // namespace

std::vector<std::byte> pack(const News& news) {
  Writer writer;
  writer.text(news.failure);
  writer.number(static_cast<std::uint32_t>(news.metrics.size()));
  for (const NewMetric& metric : news.metrics) {
    writer.number(metric.hook);
    writer.number(metric.dataloader_idx);
    writer.text(metric.name);
    writer.number(metric.options.pack());
    writer.text(metric.site);
    writer.number(metric.step);
    writer.number(metric.epoch);
  }
  return writer.take();
}

News unpack_news(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  News news;
  news.failure = reader.text();
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t index = 0; index < count; ++index) {
    NewMetric& metric = news.metrics.emplace_back();
    metric.hook = reader.number<Hook>();
    metric.dataloader_idx = reader.number<std::int32_t>();
    metric.name = reader.text();
    const auto options = MetricOptions::unpack(reader.number<std::uint16_t>());
    if (!options || metric.hook >= Hook::kCount) Reader::damaged();
    metric.options = *options;
    metric.site = reader.text();
    metric.step = reader.number<Slot>();
    metric.epoch = reader.number<Slot>();
  }
  reader.end();
  return news;
}

std::vector<MergedMetric> merge(const std::vector<News>& by_rank) {
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
