#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"

namespace levin {

/// Metric name to value, in the order of names.
class LEVIN_API MetricMap : public std::map<std::string, double, std::less<>> {
 public:
  using std::map<std::string, double, std::less<>>::map;
  /// Throws MisuseError, which names the metrics that there are.
  double at(std::string_view name) const;
  std::vector<std::string> names() const;
};

/// One row of metrics, as the loops hand it to loggers and callbacks.
struct LEVIN_API MetricRow {
  Stage stage = Stage::kTrain;
  std::int64_t epoch = 0;
  /// The x axis of training, in rows of every stage: how many batches had ended in an optimizer step (one for each window of
  /// accumulate_grad_batches) before the one that the row is of. The row of a training epoch has that of the epoch's last step,
  /// rows of a validation in fit() that of the step which it follows, and those of validate() and test() where training stands.
  std::int64_t step = 0;
  bool epoch_end = false;  ///< epoch values; false: values of one step
  MetricMap values = {};   ///< without step and epoch
  /// Values of one evaluation batch: which one, counted over all passes of its loader; no value in other rows.
  std::optional<std::int64_t> evaluation_batch = std::nullopt;
};

/// The row as one line of JSON, without the line's end:
/// {"epoch":0,"step":9,"stage":"train","epoch_end":false,"values":{"train_loss":1.5}}
/// A row of an evaluation batch has "evaluation_batch" after "step".
/// With the values of single ranks, as Logger::log_all_ranks() and Callback::on_rank_metrics() get them, "ranks" comes last, a
/// list by rank. Numbers are written with as many digits as it takes to read them back exactly. JSON has no number that is not
/// finite: NaN and the infinities become null.
LEVIN_API std::string to_json(const MetricRow& row, const std::vector<MetricMap>& by_rank = {});
/// The values alone, as one JSON object.
LEVIN_API std::string to_json(const MetricMap& values);

}  // namespace levin
