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

/// How values of a key are reduced to one, over the steps of an epoch and over ranks.
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
  /// Pass the value to the loggers.
  bool logger = true;
  /// Mean is weighted by batch_size; sum, min and max are not.
  Reduce reduce = Reduce::kMean;
  /// Unset: epoch values are reduced over ranks, step values are each rank's own. True: step values are reduced, too, when they
  /// are written or decided on. False: epoch values also stay local.
  std::optional<bool> sync_dist = std::nullopt;
  /// Only rank 0's value counts and is written. All ranks or only rank 0 may log it.
  bool rank_zero_only = false;
  /// Also write each rank's value, as `rank_{r}_{name}` in rank 0's row.
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
  /// Throws a MisuseError that names the existing metrics.
  double at(std::string_view name) const;
  std::vector<std::string> names() const;
};

/// One row of metrics for loggers and callbacks.
struct LEVIN_API MetricRow {
  Stage stage = Stage::kTrain;
  std::int64_t epoch = 0;
  /// The x axis of training, in rows of every stage: the number of earlier batches with an optimizer step (one per window of
  /// accumulate_grad_batches). The row of a training epoch has that of the epoch's last step, rows of a validation in fit()
  /// that of the step before it, and those of validate() and test() the current one of training.
  std::int64_t step = 0;
  bool epoch_end = false;  ///< epoch values; false: values of one step
  MetricMap values = {};   ///< without step and epoch
  /// In a row of one evaluation batch: its index, counted over all passes of its loader. Unset in other rows.
  std::optional<std::int64_t> evaluation_batch = std::nullopt;
};

/// The row as one line of JSON, without the line's end:
/// {"epoch":0,"step":9,"stage":"train","epoch_end":false,"values":{"train_loss":1.5}} A row of an evaluation batch has
/// "evaluation_batch" after "step". With the values of single ranks, as in Logger::log_all_ranks() and
/// Callback::on_rank_metrics(), "ranks" comes last, a list by rank. Numbers have enough digits to be read back exactly. NaN and
/// the infinities, which JSON lacks, become null.
LEVIN_API std::string to_json(const MetricRow& row, const std::vector<MetricMap>& by_rank = {});
/// Only the values, as one JSON object.
LEVIN_API std::string to_json(const MetricMap& values);

}  // namespace levin
