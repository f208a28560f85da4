#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/columns/array_dataset.h"
#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/data/data_loader.h"
#include "levin/data/table_data_module.h"

namespace levin {

/// Options of ArrayDataModule; in YAML the init_args of `data:`.
struct LEVIN_API ArrayDataOptions {
  Paths train_path = {};  ///< rows of all files, as of one; as the others
  Paths val_path = {};
  Paths test_path = {};
  Paths predict_path = {};
  std::string features = {};
  std::string label = {};
  std::map<std::string, std::string> arrays = {};
  double scale = 1.0;
  double val_fraction = 0.1;
  double test_fraction = 0.1;
  std::int64_t split_seed = 42;
  std::int64_t batch_size = 32;
  bool shuffle = true;
  bool drop_last = false;
  int num_workers = 0;
  int prefetch_factor = 2;
  bool persistent_workers = true;
  std::optional<bool> pin_memory = std::nullopt;  ///< unset: when the run computes on a GPU
  Component<Sampler> sampler = {};                ///< order of the training samples, instead of `shuffle`

  static void declare(OptionList<ArrayDataOptions>& options);
};

/// Data from arrays in files, without a line of code: HDF5, .npz, .npy, safetensors, or folders of .npy files, which may be
/// larger than the memory. Batches are those of ArrayDataset. HDF5's library is loaded with the first such file.
///
///     levin::ArrayDataModule data({.train_path = "train.h5", .val_path = "val.h5", .features = "/x", .label = "/y"});
class LEVIN_API ArrayDataModule : public DataModule {
 public:
  using Options = ArrayDataOptions;

  /// Throws ConfigError as checked() does.
  explicit ArrayDataModule(ArrayDataOptions options);
  /// Opens the files, once. Throws as ArrayDataset does.
  void setup(Stage stage) override;
  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override;
  LoaderList test_dataloaders() override;
  /// Of predict_path, which needs no labels; else the test data.
  LoaderList predict_dataloaders() override;
  /// The shape of "features", and how many classes a "label" of whole numbers has in the training files.
  DataFacts facts() const override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  /// Multiplies "features" by `scale`.
  Batch prepare(Batch batch) const override;
  std::vector<std::string> preparations() const override;

 protected:
  /// For classes with the same options: `class_name` is theirs, in errors.
  ArrayDataModule(const std::string& class_name, ArrayDataOptions options);

 private:
  std::shared_ptr<const ArrayDataset> open(const char* option, const Paths& paths, bool has_labels) const;
  LoaderList evaluation_loader(const DatasetPtr& dataset) const;

  ArrayDataOptions options_;
  std::shared_ptr<const ArrayDataset> whole_;  ///< of train_path
  DatasetPtr train_ = nullptr;
  DatasetPtr val_ = nullptr;
  DatasetPtr test_ = nullptr;
  DatasetPtr predict_ = nullptr;
  std::optional<std::int64_t> classes_;
};

/// ArrayDataModule for HDF5 files alone.
class LEVIN_API Hdf5DataModule final : public ArrayDataModule {
 public:
  explicit Hdf5DataModule(ArrayDataOptions options);
};

}  // namespace levin
