#include "levin/core/metric_row.h"

#include <nlohmann/json.hpp>

namespace levin {
namespace {

// A metric's name is the user's, and may be no UTF-8.
std::string line_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

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

}  // namespace levin
