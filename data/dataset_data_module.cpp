#include <cstdint>
#include <optional>
#include <utility>

#include "levin/core/config/component.h"
#include "levin/core/config/registry.h"
#include "levin/core/data_module.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/data/reading_options.h"

namespace levin {

/// Options of DatasetDataModule; in YAML the init_args of `data:`.
struct DatasetDataOptions {
  Component<Dataset> train_dataset = {};
  Component<Dataset> val_dataset = {};
  Component<Dataset> test_dataset = {};
  Component<Dataset> predict_dataset = {};  ///< left out: the test data
  std::int64_t batch_size = 32;
  bool shuffle = true;
  Component<Sampler> sampler = {};  ///< order of the training samples, instead of `shuffle`
  bool drop_last = false;
  int num_workers = 0;
  int prefetch_factor = 2;
  bool persistent_workers = true;
  std::optional<bool> pin_memory = std::nullopt;  ///< unset: when the run computes on a GPU

  static void declare(OptionList<DatasetDataOptions>& options) {
    using D = DatasetDataOptions;
    options.add(&D::train_dataset, "Training data");
    options.add(&D::val_dataset, "Validation data");
    options.add(&D::test_dataset, "Test data");
    options.add(&D::predict_dataset, "Data to predict from; null: the test data");
    declare_loaders(options);
  }
};

/// Data from datasets of the user's own, by name. A dataset is made when its loader is first needed, on every
/// rank; one that is left out gives no loader.
///
///     data:
///       class_path: DatasetDataModule
///       init_args: {train_dataset: {class_path: Faces, init_args: {folder: train}}, batch_size: 64}
class DatasetDataModule final : public DataModule {
 public:
  using Options = DatasetDataOptions;

  /// Throws ConfigError as checked() does.
  explicit DatasetDataModule(Options options) : options_(checked("DatasetDataModule", std::move(options))) {
    set_hparams(write_options(options_));
  }

  LoaderPtr train_dataloader() override {
    const DatasetPtr dataset = options_.train_dataset.get();
    if (!dataset) return nullptr;
    return DataLoader(dataset, training_options(options_));
  }
  LoaderList val_dataloaders() override { return evaluation_loaders(options_.val_dataset); }
  LoaderList test_dataloaders() override { return evaluation_loaders(options_.test_dataset); }
  LoaderList predict_dataloaders() override {
    return evaluation_loaders(options_.predict_dataset.empty() ? options_.test_dataset : options_.predict_dataset);
  }

 private:
  LoaderList evaluation_loaders(const Component<Dataset>& component) const {
    const DatasetPtr dataset = component.get();
    if (!dataset) return {};
    return DataLoader(dataset, reading_options(options_));
  }

  Options options_;
};

LEVIN_REGISTER_DATA_MODULE(DatasetDataModule, "Your datasets");

}  // namespace levin
