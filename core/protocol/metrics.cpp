#include "levin/core/protocol/metrics.h"

#include <array>
#include <nlohmann/json.hpp>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

// A metric's name is the user's, and may be no UTF-8.
std::string line_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

const char* reduce_name(Reduce reduce) {
  constexpr std::array<const char*, kReductions> kNames = {"mean", "sum", "min", "max"};
  const auto index = static_cast<std::size_t>(reduce);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string CallSite::str() const {
  const std::string_view path = file;
  return path.empty() ? "an unknown line" : format("{}:{}", path.substr(path.find_last_of("/\\") + 1), line);
}

std::string to_json(const MetricRow& row, const std::vector<MetricMap>& by_rank) {
  nlohmann::ordered_json json;
  json["epoch"] = row.epoch;
  json["step"] = row.step;
  if (row.evaluation_batch) json["evaluation_batch"] = *row.evaluation_batch;
  json["stage"] = stage_name(row.stage);
  json["epoch_end"] = row.epoch_end;
  json["values"] = row.values;
  if (!by_rank.empty()) json["ranks"] = by_rank;
  return line_of(json);
}

std::string to_json(const MetricMap& values) { return line_of(values); }

std::vector<std::string> MetricMap::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : *this) names.push_back(name);
  return names;
}

double MetricMap::at(std::string_view name) const {
  const auto found = find(name);
  if (found != end()) return found->second;
  throw MisuseError(format("There is no metric '{}'.{} There are: {}.", name, nearest_metric(name, names()),
                           empty() ? "none" : quoted_list(names())));
}

}  // namespace levin
