#include "levin/columns/array_data_module.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/reading_options.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(ArrayDataModule, "Arrays in HDF5, .npz, .npy or safetensors files, read row by row");
LEVIN_REGISTER_DATA_MODULE(Hdf5DataModule, "Arrays in HDF5 files, read row by row");

namespace {

double val_share_of(const ArrayDataOptions& data) { return data.val_path.empty() ? data.val_fraction : 0.0; }
double test_share_of(const ArrayDataOptions& data) { return data.test_path.empty() ? data.test_fraction : 0.0; }

/// Looks at the first rows alone, since files may be larger than the memory.
void warn_of_wrong_values(const ArrayDataset& dataset, std::int64_t rows, const std::string& file) {
  if (!dataset.has("features")) return;
  std::vector<std::int64_t> first(static_cast<std::size_t>(std::min(rows, dataset.size())));
  std::iota(first.begin(), first.end(), std::int64_t{0});
  const at::Tensor features = dataset.get_batch(first)["features"];
  const at::Tensor wrong = at::isfinite(features).logical_not().flatten(1).any(1).nonzero();
  if (wrong.numel() == 0) return;
  rank_zero_warn(
      format("{}: {} of the first {} have features that are NaN or infinite as 32-bit floats, the first of them row {} "
             "(from 0). No loss can be computed of them: leave them out, or correct them",
             file, wrong.size(0), counted(first.size(), "row"), wrong[0][0].item<std::int64_t>()));
}

bool has_samples(const DatasetPtr& dataset) { return dataset && dataset->size() > 0; }

}  // namespace

void ArrayDataOptions::declare(OptionList<ArrayDataOptions>& options) {
  using T = ArrayDataOptions;
  options
      .add("train_path", &T::train_path,
           "Training data: .h5, .npz, .npy, .safetensors, or a folder of .npy files; a list or a pattern is one "
           "behind the other")
      .input_file()
      .required();
  options.add("val_path", &T::val_path, "Validation data, instead of val_fraction").input_file();
  options.add("test_path", &T::test_path, "Test data, instead of test_fraction").input_file();
  options.add("predict_path", &T::predict_path, "Data to predict all rows of, with or without labels").input_file();
  options.add("features", &T::features, "Array that becomes `features`, float32: /x");
  options.add("label", &T::label, "Array that becomes `label`: /y");
  options.add("arrays", &T::arrays,
              "Other arrays, by their names in batches: {mask: /m}; without any, all arrays are read under their own names");
  options.add("scale", &T::scale, "`features` are multiplied by it");
  options.add("val_fraction", &T::val_fraction, "Part of train_path that is validation data; unused with val_path")
      .min(0)
      .max(1);
  options.add("test_fraction", &T::test_fraction, "Part of train_path that is test data; unused with test_path").min(0).max(1);
  options.add("split_seed", &T::split_seed, "Seed of the division into training, validation and test data");
  declare_loaders(options);
  options.rule({"train_path"}, [](const T& data) { return data.train_path.empty() ? "train_path names no file" : ""; });
  options.rule({"scale"}, [](const T& data) {
    return data.scale == 0 ? "scale is 0, which leaves nothing of the features: 1.0 takes them unchanged" : "";
  });
  options.rule({"arrays", "features", "label"}, [](const T& data) -> std::string {
    for (const auto& [name, given] : {std::pair("features", &data.features), std::pair("label", &data.label)})
      if (!given->empty() && data.arrays.contains(name))
        return format("{} is given twice, as an option and among arrays", name);
    return "";
  });
  options.rule({"val_fraction", "test_fraction"}, [](const T& data) {
    return val_share_of(data) + test_share_of(data) >= 1.0 ? "val_fraction and test_fraction leave nothing to train on" : "";
  });
}

ArrayDataModule::ArrayDataModule(ArrayDataOptions options) : ArrayDataModule("ArrayDataModule", std::move(options)) {}

ArrayDataModule::ArrayDataModule(const std::string& class_name, ArrayDataOptions options)
    : options_(checked(class_name, std::move(options))) {
  set_hparams(write_options(options_));
}

std::shared_ptr<const ArrayDataset> ArrayDataModule::open(const char* option, const Paths& paths, bool has_labels) const {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : paths) {
    const auto matches = files_meant_by(path);
    if (matches.empty()) throw ConfigError(format("{}: {}: there is no such file", option, path));
    files.insert(files.end(), matches.begin(), matches.end());
  }
  ArrayDatasetOptions dataset{.arrays = options_.arrays, .scale = options_.scale};
  if (!options_.features.empty()) dataset.arrays["features"] = options_.features;
  if (!options_.label.empty()) dataset.arrays["label"] = options_.label;
  if (!has_labels) dataset.arrays.erase("label");
  return std::make_shared<ArrayDataset>(files, std::move(dataset));
}

void ArrayDataModule::setup(Stage) {
  if (whole_) return;
  const auto whole = open("train_path", options_.train_path, true);
  if (whole->size() == 0) throw ConfigError(format("train_path: {}: there is no data in it", options_.train_path.front()));
  const double val = val_share_of(options_), test = test_share_of(options_);
  train_ = DatasetPtr(whole);
  if (val + test > 0) {
    const auto parts = random_split(DatasetPtr(whole), std::vector<double>{1.0 - val - test, val, test}, options_.split_seed);
    train_ = DatasetPtr(parts[0]);
    val_ = DatasetPtr(parts[1]);
    test_ = DatasetPtr(parts[2]);
  }
  if (!options_.val_path.empty()) val_ = DatasetPtr(open("val_path", options_.val_path, true));
  if (!options_.test_path.empty()) test_ = DatasetPtr(open("test_path", options_.test_path, true));
  predict_ = options_.predict_path.empty() ? test_ : DatasetPtr(open("predict_path", options_.predict_path, false));
  whole_ = whole;
  warn_of_wrong_values(*whole, options_.batch_size, options_.train_path.front().string());
  if (classes_ || !whole->has("label") || !whole->shape("label").empty()) return;
  const at::Tensor labels = whole->read_all("label");
  const bool are_classes = labels.scalar_type() == at::kLong && labels.min().item<std::int64_t>() == 0;
  if (are_classes && labels.max().item<std::int64_t>() < whole->size()) classes_ = labels.max().item<std::int64_t>() + 1;
}

LoaderPtr ArrayDataModule::train_dataloader() { return DataLoader(train_, training_options(options_)); }

LoaderList ArrayDataModule::evaluation_loader(const DatasetPtr& dataset) const {
  if (!has_samples(dataset)) return {};
  return DataLoader(dataset, reading_options(options_));
}

LoaderList ArrayDataModule::val_dataloaders() { return evaluation_loader(val_); }
LoaderList ArrayDataModule::test_dataloaders() { return evaluation_loader(test_); }
LoaderList ArrayDataModule::predict_dataloaders() { return evaluation_loader(predict_); }

DataFacts ArrayDataModule::facts() const {
  DataFacts facts;
  facts.classes = classes_;
  if (whole_ && whole_->has("features")) facts.features = whole_->shape("features");
  return facts;
}

Value ArrayDataModule::state_dict() const {
  Value state(Value::Map{});
  if (classes_) state["number_of_classes"] = *classes_;
  return state;
}

void ArrayDataModule::load_state_dict(const Value& state) {
  if (const Value* count = state.find("number_of_classes")) classes_ = count->as_int();
}

Batch ArrayDataModule::prepare(Batch batch) const {
  const at::Tensor features = (batch.contains("features") ? batch["features"] : batch[0]).to(at::kFloat);
  if (batch.size() == 1) batch = {};
  batch.set("features", options_.scale == 1.0 ? features : features * options_.scale);
  return batch;
}

std::vector<std::string> ArrayDataModule::preparations() const {
  if (options_.scale == 1.0) return {};
  return {format("scale: features are multiplied by {}", options_.scale)};
}

Hdf5DataModule::Hdf5DataModule(ArrayDataOptions options) : ArrayDataModule("Hdf5DataModule", std::move(options)) {}

}  // namespace levin
