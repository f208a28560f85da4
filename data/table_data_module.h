#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/data_module.h"
#include "levin/core/export.h"
#include "levin/core/options/component.h"
#include "levin/core/options/options.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/data/input_file.h"

namespace levin {

/// What labels are: whole numbers, or any.
enum class TableTask : std::uint8_t { kClassification, kRegression };
template <>
inline constexpr std::array kChoices<TableTask> = {Choice{TableTask::kClassification, "classification"},
                                                   Choice{TableTask::kRegression, "regression"}};

/// Options of TableDataModule; in YAML the init_args of `data:`.
struct LEVIN_API TableDataOptions {
  std::filesystem::path path;
  std::optional<std::filesystem::path> label_path;
  std::optional<std::filesystem::path> test_path;
  std::optional<std::filesystem::path> test_label_path;
  std::string label_column = "-1";
  TableTask task = TableTask::kClassification;
  std::optional<bool> header;
  std::string delimiter = ",";
  std::optional<double> missing;
  double max_expansion = kMaxExpansion;
  double scale = 1.0;
  bool standardize = false;
  std::vector<std::int64_t> shape;
  double val_fraction = 0.1;
  double test_fraction = 0.1;
  std::int64_t split_seed = 42;
  std::int64_t batch_size = 32;
  bool shuffle = true;
  bool drop_last = false;
  int num_workers = 0;
  Component<Sampler> sampler = {};  ///< order of the training samples, in place of `shuffle`

  static void declare(OptionList<TableDataOptions>& options);
};

/// Data from files of numbers, without a line of code: a CSV or NumPy table with a label column, or features and labels in two
/// NumPy or IDX (MNIST) files. Batches hold "features" (float32) and "label" (int64 for classification, else float32).
/// One file is divided at random, the same way on every rank and in every run, into training, validation and test data.
class LEVIN_API TableDataModule : public DataModule {
 public:
  using Options = TableDataOptions;

  /// Throws ConfigError as checked() does.
  explicit TableDataModule(TableDataOptions options);

  /// Reads the files, once. Throws IoError on a damaged file, ConfigError when options do not fit what it holds.
  void setup(Stage stage) override;
  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override;
  LoaderList test_dataloaders() override;
  /// The test data.
  LoaderList predict_dataloaders() override;

 private:
  Batch read(const std::filesystem::path& path, const std::optional<std::filesystem::path>& label_path) const;
  LoaderList evaluation_loaders(const DatasetPtr& dataset) const;

  TableDataOptions options_;
  DatasetPtr train_;
  DatasetPtr val_;
  DatasetPtr test_;
};

}  // namespace levin
