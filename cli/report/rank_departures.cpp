#include "levin/cli/report/rank_departures.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

struct RankValue {
  int rank = 0;
  double mean = 0;
};

struct Departure {
  double strength = 0;  ///< the distance, relative to the value
  std::string text;
};

std::string number_text(double number) { return format("{:.4g}", number); }

std::optional<Departure> departure_in(const std::string& metric, const std::map<int, RankMean>& by_rank) {
  constexpr double kOfTwo = 0.25, kOfMany = 0.05, kOfTheirRange = 3;
  std::vector<RankValue> values;
  for (const auto& [rank, mean] : by_rank) {
    if (mean.count > 0) values.push_back({rank, mean.sum / static_cast<double>(mean.count)});
  }
  if (values.size() < 2) return std::nullopt;
  std::ranges::sort(values, {}, &RankValue::mean);
  const double size = std::max(std::abs(values.front().mean), std::abs(values.back().mean));
  if (values.size() == 2) {
    const double strength = (values[1].mean - values[0].mean) / size;
    if (!(strength > kOfTwo)) return std::nullopt;
    return Departure{strength, format("ranks {} and {} differ in {}: {} and {} on average", values[0].rank, values[1].rank,
                                      metric, number_text(values[0].mean), number_text(values[1].mean))};
  }
  const double below = values[1].mean - values[0].mean;
  const double above = values.back().mean - values[values.size() - 2].mean;
  const bool is_lowest = below > above;
  const RankValue one = is_lowest ? values.front() : values.back();
  values.erase(is_lowest ? values.begin() : values.end() - 1);
  const double low = values.front().mean, high = values.back().mean;
  const double distance = std::max(below, above);
  if (!(distance > kOfTheirRange * (high - low)) || !(distance > kOfMany * size)) return std::nullopt;
  const std::string others = low == high ? number_text(low) : format("{} to {}", number_text(low), number_text(high));
  return Departure{distance / size, format("rank {} departs in {}: {} on average, the others {}", one.rank, metric,
                                           number_text(one.mean), others)};
}

/// Seconds of "230.10 ms".
double seconds_of(const std::string& number, const std::string& unit) {
  static const std::map<std::string, double> kUnits = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}};
  return std::stod(number) * kUnits.at(unit);
}

/// The text of a cell; "" where there is none.
std::string cell(const Value::List& row, std::size_t column) {
  return column < row.size() && row[column].is_string() ? row[column].as_string() : "";
}

}  // namespace

std::vector<std::string> departures_in_metrics(const RunMetrics& metrics) {
  constexpr std::size_t kMost = 5;
  std::vector<Departure> found;
  for (const auto& [name, metric] : metrics.by_name) {
    if (auto departure = departure_in(name, metric.by_rank)) found.push_back(std::move(*departure));
  }
  std::ranges::stable_sort(found, std::greater<>(), &Departure::strength);
  if (found.size() > kMost) found.resize(kMost);
  std::vector<std::string> texts;
  for (const Departure& departure : found) texts.push_back(departure.text);
  return texts;
}

std::string departure_in_waits(const Value& profiles) {
  constexpr double kLonger = 1.5;
  static const std::regex kAwaited("rank ([0-9]{1,6}) ([0-9]{1,12}(?:\\.[0-9]{1,9})?) (us|ms|s|min|h)");
  std::map<int, double> seconds;  // by the rank that was waited for
  std::set<int> waiting;
  for (const Value& profile : profiles.as_list()) {
    for (const Value& table : profile.at("tables").as_list()) {
      const Value::List& columns = table.at("columns").as_list();
      if (columns.size() < 2 || cell(columns, 0) != "rank" || cell(columns, 1) != "waited in") continue;
      for (const Value& row : table.at("rows").as_list()) {
        const std::string text = cell(row.as_list(), columns.size() - 1);
        for (std::sregex_iterator match(text.begin(), text.end(), kAwaited); match != std::sregex_iterator(); ++match)
          seconds[std::stoi((*match)[1])] += seconds_of((*match)[2], (*match)[3]);
        int rank = -1;
        const std::string own = cell(row.as_list(), 0);
        std::from_chars(own.data(), own.data() + own.size(), rank);
        if (rank >= 0) waiting.insert(rank);
      }
    }
    // Each rank's file has the waits of all.
    if (!seconds.empty()) break;
  }
  for (const int rank : waiting) seconds.try_emplace(rank, 0);
  if (seconds.size() < 2) return "";
  std::vector<std::pair<double, int>> order;
  for (const auto& [rank, waited] : seconds) order.emplace_back(waited, rank);
  std::ranges::sort(order, std::greater<>());
  if (!(order[0].first > kLonger * order[1].first)) return "";
  return format("rank {} is the slowest: others waited {:.3g} s for it, and {:.3g} s for the next, rank {}", order[0].second,
                order[0].first, order[1].first, order[1].second);
}

}  // namespace levin::cli
