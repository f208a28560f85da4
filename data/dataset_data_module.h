#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/data_module.h"
#include "levin/core/options/component.h"
#include "levin/core/options/options.h"
#include "levin/data/dataset.h"
#include "levin/data/sampler.h"

namespace levin {

/// Options of DatasetDataModule; in YAML the init_args of `data:`.
struct DatasetDataOptions {
  Component<Dataset> train_dataset = {};
  Component<Dataset> val_dataset = {};
  Component<Dataset> test_dataset = {};
  Component<Dataset> predict_dataset = {};  ///< left out: the test data
  std::int64_t batch_size = 32;
  bool shuffle = true;
  Component<Sampler> sampler = {};  ///< order of the training samples, in place of `shuffle`
  bool drop_last = false;
  int num_workers = 0;
  int prefetch_factor = 2;
  bool persistent_workers = true;
  std::optional<bool> pin_memory = std::nullopt;  ///< unset: when the run computes on a GPU

  static void declare(OptionList<DatasetDataOptions>& options);
};

/// Data from datasets of the user's own, by name or as objects. A dataset is made when its loader is first asked for, on every
/// rank; one that is left out gives no loader.
///
///     data:
///       class_path: DatasetDataModule
///       init_args: {train_dataset: {class_path: Faces, init_args: {folder: train}}, batch_size: 64}
class DatasetDataModule : public DataModule {
 public:
  using Options = DatasetDataOptions;

  /// Throws ConfigError as checked() does.
  explicit DatasetDataModule(DatasetDataOptions options);

  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override;
  LoaderList test_dataloaders() override;
  LoaderList predict_dataloaders() override;

 private:
  LoaderList evaluation_loaders(const Component<Dataset>& dataset) const;

  DatasetDataOptions options_;
};

}  // namespace levin
