#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"

namespace levin {

/// How values of one key become one value: over the steps of an epoch, and over ranks.
enum class Reduce : std::uint8_t { kMean, kSum, kMin, kMax };
inline constexpr std::size_t kReductions = 4;

/// "mean", "sum", "min", "max".
LEVIN_API const char* reduce_name(Reduce reduce);

/// The options of log(). Written with designated initializers, in this order: `log("val_loss", loss, {.prog_bar = true})`.
struct LEVIN_API LogOptions {
  /// Write the value of each step (every log_every_n_steps). Default: by hook, true in a training step.
  std::optional<bool> on_step = std::nullopt;
  /// Accumulate the value and write it at the end of the epoch. Default: by hook, true outside a training step.
  /// A key with both is forked into `name_step` and `name_epoch`.
  std::optional<bool> on_epoch = std::nullopt;
  /// Show the value in the progress bar.
  bool prog_bar = false;
  /// Hand the value to the loggers.
  bool logger = true;
  /// Mean is weighted by batch_size; sum, min and max are not.
  Reduce reduce = Reduce::kMean;
  /// Unset: epoch values are reduced over ranks, step values are each rank's own. true: step values are reduced too (where they
  /// are written, and where something is decided on them). false: epoch values stay local as well.
  std::optional<bool> sync_dist = std::nullopt;
  /// Only rank 0's value counts and is written. Legal on all ranks and on rank 0 alone.
  bool rank_zero_only = false;
  /// Also keep each rank's value, as `rank_{r}_{name}` in rank 0's row.
  bool per_rank = false;
  /// Weight of this value in a mean. Default: the size of the current batch, 1 outside a batch.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// With several evaluation loaders, add `/dataloader_idx_{i}` to the key.
  bool add_dataloader_idx = true;
};

/// Where log() or a collective was called.
struct LEVIN_API CallSite {
  const char* file = "";
  std::uint32_t line = 0;

  CallSite() = default;
  CallSite(const SourceLocation& where) : file(where.file_name()), line(where.line()) {}
  /// "digits.cpp:41"
  std::string str() const;
};

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
