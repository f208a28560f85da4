#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"

namespace levin {

/// What files of predictions are.
enum class PredictionFormat : std::uint8_t { kCsv, kParquet, kNpy, kSafetensors };
template <>
inline constexpr std::array kChoices<PredictionFormat> = {
    Choice{PredictionFormat::kCsv, "csv"}, Choice{PredictionFormat::kParquet, "parquet"}, Choice{PredictionFormat::kNpy, "npy"},
    Choice{PredictionFormat::kSafetensors, "safetensors"}};

/// When predictions are written: each batch as it comes, all at the end, or both. Lightning's names.
enum class WriteInterval : std::uint8_t { kBatch, kEpoch, kBatchAndEpoch };
template <>
inline constexpr std::array kChoices<WriteInterval> = {Choice{WriteInterval::kBatch, "batch"},
                                                       Choice{WriteInterval::kEpoch, "epoch"},
                                                       Choice{WriteInterval::kBatchAndEpoch, "batch_and_epoch"}};

struct LEVIN_API PredictionWriterOptions {
  std::optional<std::filesystem::path> dirpath = std::nullopt;  ///< default: the first logger's folder, or default_root_dir
  std::string filename = "predictions";                         ///< without what the format adds
  PredictionFormat format = PredictionFormat::kCsv;
  WriteInterval write_interval = WriteInterval::kEpoch;

  static void declare(OptionList<PredictionWriterOptions>& options);
};

/// Writes what predict_step returns, a row for each sample. `levin predict` has one by default.
///
/// `epoch`: one file, `predictions.csv`, with each sample once and in the dataset's order, on any number of ranks; of several
/// loaders `predictions-0.csv`, `predictions-1.csv`, …. All predictions are in memory for it, on every rank. `batch`: a file
/// for each batch in the folder `predictions`, written by the rank that has it (`loader_0-rank_0-batch_0.csv`); nothing is
/// kept. Its column `sample` is the sample's index in the dataset, where the loader knows it.
///
/// A tensor without a name is called `prediction`; in a CSV or Parquet file a row of several numbers becomes the columns
/// `prediction_0`, `prediction_1`, …, and beside a class number `label` the name of the class is `class`, where the data has
/// such names (DataFacts::class_names). A `.npy` file holds one array: of several tensors each has a file,
/// `predictions-KEY.npy`. Where samples have names (Dataset::sample_name), such as the paths of images, the first column of a
/// CSV or Parquet file is `name`. Existing files are replaced, each in one instant. fast_dev_run writes nothing.
class LEVIN_API PredictionWriter final : public WithOptions<Callback, PredictionWriterOptions> {
 public:
  /// Throws ConfigError as checked() does.
  explicit PredictionWriter(Options options = {}) : WithOptions("PredictionWriter", std::move(options)) {}

  void on_predict_start(Trainer& trainer, Module& module) override;
  /// Throws MisuseError when a prediction has not one row for each sample, IoError when a file cannot be written.
  void on_predict_batch_end(Trainer& trainer, Module& module, const Batch& prediction, const Batch& batch,
                            std::int64_t batch_idx, std::int64_t dataloader_idx) override;
  void on_predict_epoch_end(Trainer& trainer, Module& module) override;
  void on_predict_end(Trainer& trainer, Module& module) override;

 private:
  bool writes_batches() const { return options_.write_interval != WriteInterval::kEpoch; }
  bool writes_epoch() const { return options_.write_interval != WriteInterval::kBatch; }
  std::vector<std::string> names_of_rows(const Trainer& trainer, std::int64_t dataloader_idx,
                                         const std::vector<Batch::Item>& columns) const;
  void write_epoch(Trainer& trainer, Module& module, std::size_t dataloader_idx);

  std::filesystem::path folder_;
  std::vector<std::string> classes_;                         ///< names of the data's classes
  std::vector<std::vector<std::vector<Batch::Item>>> kept_;  ///< by loader and batch
  std::vector<std::string> written_;                         ///< what the end of the run reports
};

}  // namespace levin
