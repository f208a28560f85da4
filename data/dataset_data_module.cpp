#include "levin/data/dataset_data_module.h"

#include <memory>

#include "levin/core/options/registry.h"
#include "levin/data/data_loader.h"
#include "levin/data/reading_options.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(DatasetDataModule, "Datasets of your own");

void DatasetDataOptions::declare(OptionList<DatasetDataOptions>& options) {
  using D = DatasetDataOptions;
  options.add("train_dataset", &D::train_dataset, "Training data");
  options.add("val_dataset", &D::val_dataset, "Validation data");
  options.add("test_dataset", &D::test_dataset, "Test data");
  options.add("predict_dataset", &D::predict_dataset, "Data to predict from; null: the test data");
  declare_loaders(options);
}

DatasetDataModule::DatasetDataModule(DatasetDataOptions options) : options_(checked("DatasetDataModule", std::move(options))) {
  set_hparams(write_options(options_));
}

LoaderPtr DatasetDataModule::train_dataloader() {
  const DatasetPtr dataset = options_.train_dataset.get();
  if (!dataset) return nullptr;
  return std::make_shared<DataLoader>(dataset, training_options(options_));
}

LoaderList DatasetDataModule::evaluation_loaders(const Component<Dataset>& component) const {
  const DatasetPtr dataset = component.get();
  if (!dataset) return {};
  return {std::make_shared<DataLoader>(dataset, reading_options(options_))};
}

LoaderList DatasetDataModule::val_dataloaders() { return evaluation_loaders(options_.val_dataset); }
LoaderList DatasetDataModule::test_dataloaders() { return evaluation_loaders(options_.test_dataset); }
LoaderList DatasetDataModule::predict_dataloaders() {
  return evaluation_loaders(options_.predict_dataset.empty() ? options_.test_dataset : options_.predict_dataset);
}

}  // namespace levin
