#include "levin/data/table_data_module.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <charconv>

#include "levin/core/base/format.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/error.h"
#include "levin/data/array_bytes.h"
#include "levin/data/array_file.h"
#include "levin/data/csv_table.h"
#include "levin/data/dataset.h"

namespace levin {

void TableDataOptions::declare(OptionList<TableDataOptions>& options) {
  using T = TableDataOptions;
  options.add("path", &T::path, "Data: .csv, .tsv, .npy, or MNIST's IDX format; each may be compressed (.gz)")
      .input_file()
      .required()
      .not_empty();
  options.add("label_path", &T::label_path, "File of labels, when they are not a column of the data").input_file();
  options.add("test_path", &T::test_path, "File of test data, in place of test_fraction").input_file();
  options.add("test_label_path", &T::test_label_path, "File of labels of the test data").input_file();
  options.add("label_column", &T::label_column, "Column that is the label: its name, or its number from 0; -1 is the last");
  options.add("task", &T::task, "classification: labels are whole numbers; regression: any");
  options.add("header", &T::header, "CSV: whether the first line names the columns; null finds out");
  options.add("delimiter", &T::delimiter, "CSV: what separates fields, one character; a .tsv file has tabs");
  options.add("missing", &T::missing, "CSV: value of empty fields and NA; null makes them an error");
  options
      .add("max_expansion", &T::max_expansion,
           "Compressed files: the most times its own size that one may expand to, from 64 MiB on; more is taken for an attack")
      .min(1);
  options.add("scale", &T::scale, "Features are multiplied by it");
  options.add("standardize", &T::standardize, "Give each feature mean 0 and deviation 1 over the training data");
  options.add("shape", &T::shape, "Shape of one sample's features, such as [1, 8, 8]; empty: as in the file").min(1);
  options.add("val_fraction", &T::val_fraction, "Part of `path` that is validation data").min(0).max(1);
  options.add("test_fraction", &T::test_fraction, "Part of `path` that is test data; unused with test_path").min(0).max(1);
  options.add("split_seed", &T::split_seed, "Seed of the division into training, validation and test data");
  options.add("batch_size", &T::batch_size, "Samples in a batch of one rank").min(1);
  options.add("shuffle", &T::shuffle, "Training data in a new order in each epoch");
  options.add("drop_last", &T::drop_last, "Leave out a last training batch that is not full");
  options.add("num_workers", &T::num_workers, "Threads that read ahead; 0: the training thread reads").min(0);
  options.add("sampler", &T::sampler, "Order of the training samples, in place of shuffle");
  options.rule({"delimiter"},
               [](const T& table) { return table.delimiter.size() == 1 ? "" : "delimiter must be one character"; });
  options.rule({"test_label_path"}, [](const T& table) {
    return table.test_label_path && !table.test_path ? "test_label_path needs test_path" : "";
  });
  options.rule({"test_path", "label_path", "test_label_path"}, [](const T& table) {
    return table.test_path && table.label_path.has_value() != table.test_label_path.has_value()
               ? "label_path and test_label_path go together: the test data has its labels where the training data has them"
               : "";
  });
  options.rule({"val_fraction", "test_fraction"}, [](const T& table) {
    const double held_out = table.val_fraction + (table.test_path ? 0.0 : table.test_fraction);
    return held_out >= 1.0 ? "val_fraction and test_fraction leave nothing to train on" : "";
  });
}

namespace {

bool ends_with(const std::filesystem::path& path, std::string_view extension) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(extension);
}

CsvTable read_table(const std::filesystem::path& path, const TableDataOptions& options) {
  if (ends_with(path, ".npy")) return {{}, read_npy(path, options.max_expansion)};
  if (ends_with(path, "ubyte") || ends_with(path, ".idx")) return {{}, read_idx(path, options.max_expansion)};
  if (ends_with(path, ".csv") || ends_with(path, ".tsv") || ends_with(path, ".txt")) {
    const char delimiter = ends_with(path, ".tsv") ? '\t' : options.delimiter[0];
    return read_csv(
        path,
        {.delimiter = delimiter, .header = options.header, .missing = options.missing, .max_expansion = options.max_expansion});
  }
  throw ConfigError(format(
      "{}: the name does not say what the file holds; it ends in .csv, .tsv, .txt, .npy, .idx or ubyte (and .gz)", path));
}

std::int64_t find_column(const CsvTable& table, const std::string& wanted, const std::string& file) {
  const std::int64_t width = table.values.size(1);
  const auto named = std::find(table.columns.begin(), table.columns.end(), wanted);
  if (named != table.columns.end()) return named - table.columns.begin();
  std::int64_t column = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), column);
  if (error == std::errc() && end == wanted.data() + wanted.size() && column >= -width && column < width) {
    return column < 0 ? column + width : column;
  }
  std::string known = format("0 to {}", width - 1);
  constexpr std::size_t kMostShown = 20;
  for (std::size_t i = 0; i < std::min(table.columns.size(), kMostShown); ++i)
    known += ", " + quoted_text(table.columns[i], 40);
  if (table.columns.size() > kMostShown) known += format(" and {} more", table.columns.size() - kMostShown);
  throw ConfigError(format("label_column: {} has no column {}; it has {}", file, quoted_text(wanted), known));
}

at::Tensor label_tensor(const at::Tensor& labels, const TableDataOptions& options, const std::string& file) {
  if (options.task == TableTask::kRegression) return labels.to(at::kFloat);
  const at::Tensor whole = labels.to(at::kLong);
  const at::Tensor wrong = labels.ne(whole).nonzero();
  if (wrong.numel() > 0) {
    const std::int64_t row = wrong[0][0].item<std::int64_t>();
    throw ConfigError(format(
        "{}: the label of row {} (from 0) is no whole number: choose another label_column, or task: regression", file, row));
  }
  return whole;
}

}  // namespace

TableDataModule::TableDataModule(TableDataOptions options) : options_(checked("TableDataModule", std::move(options))) {
  set_hparams(write_options(options_));
}

Batch TableDataModule::read(const std::filesystem::path& path, const std::optional<std::filesystem::path>& label_path) const {
  CsvTable table = read_table(path, options_);
  if (table.values.dim() < 1 || table.values.numel() == 0) throw ConfigError(path.string() + ": there is no data in it");
  at::Tensor features = table.values;
  at::Tensor labels;
  if (label_path) {
    labels = read_table(*label_path, options_).values;
    if (labels.dim() == 2 && labels.size(1) == 1) labels = labels.squeeze(1);
    if (labels.dim() == 0 || labels.size(0) != features.size(0)) {
      throw ConfigError(
          format("{} does not have one label for each of the {} samples of {}", *label_path, features.size(0), path));
    }
    labels = label_tensor(labels, options_, label_path->string());
  } else {
    if (features.dim() != 2 || features.size(1) < 2) {
      throw ConfigError(path.string() + " is no table with a column of labels beside the features: give label_path");
    }
    const std::int64_t column = find_column(table, options_.label_column, path.string());
    labels = label_tensor(features.select(1, column).contiguous(), options_, path.string());
    features = at::cat({features.narrow(1, 0, column), features.narrow(1, column + 1, features.size(1) - column - 1)}, 1);
  }
  return {{"features", features.to(at::kFloat) * options_.scale}, {"label", labels}};
}

void TableDataModule::setup(Stage) {
  if (train_) return;
  Batch table = read(options_.path, options_.label_path);
  std::vector<double> fractions{0.0, options_.val_fraction, options_.test_path ? 0.0 : options_.test_fraction};
  fractions[0] = 1.0 - fractions[1] - fractions[2];
  const auto whole = std::make_shared<TensorDataset>(table);
  const auto parts = random_split(whole, fractions, options_.split_seed);
  const auto all_rows = [](const Dataset& part) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(part.size()));
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<std::int64_t>(row);
    return part.get_batch(rows);
  };
  Batch train = all_rows(*parts[0]);
  Batch val = all_rows(*parts[1]);
  Batch test = options_.test_path ? read(*options_.test_path, options_.test_label_path) : all_rows(*parts[2]);
  std::vector<std::int64_t> sample_shape = table["features"].sizes().slice(1).vec();
  if (test["features"].sizes().slice(1) != sample_shape) {
    throw ConfigError(format("{}: its features have another shape than those of {}", *options_.test_path, options_.path));
  }
  const auto [deviation, mean] = at::std_mean(train["features"], at::IntArrayRef{0}, /*unbiased=*/false, /*keepdim=*/false);
  const at::Tensor divisor = at::where(deviation > 0, deviation, at::ones_like(deviation));
  const std::optional<std::size_t> elements = array_bytes(options_.shape, 1);
  if (!options_.shape.empty() && (!elements || static_cast<std::int64_t>(*elements) != mean.numel())) {
    throw ConfigError(format("shape: holds {} features, a sample of {} has {}",
                             elements ? std::to_string(*elements) : "more than 2^63", options_.path, mean.numel()));
  }
  const auto finish = [&](Batch part) -> DatasetPtr {
    at::Tensor features = part["features"];
    if (options_.standardize) features = (features - mean) / divisor;
    if (!options_.shape.empty()) {
      std::vector<std::int64_t> shape{features.size(0)};
      shape.insert(shape.end(), options_.shape.begin(), options_.shape.end());
      features = features.reshape(shape);
    }
    part.set("features", features);
    return std::make_shared<TensorDataset>(std::move(part));
  };
  train_ = finish(std::move(train));
  val_ = finish(std::move(val));
  test_ = finish(std::move(test));
}

LoaderPtr TableDataModule::train_dataloader() {
  return std::make_shared<DataLoader>(train_, DataLoaderOptions{.batch_size = options_.batch_size,
                                                                .shuffle = options_.shuffle && options_.sampler.empty(),
                                                                .num_workers = options_.num_workers,
                                                                .drop_last = options_.drop_last,
                                                                .sampler = options_.sampler.get()});
}

LoaderList TableDataModule::evaluation_loaders(const DatasetPtr& dataset) const {
  if (!dataset || dataset->size() == 0) return {};
  return {std::make_shared<DataLoader>(
      dataset, DataLoaderOptions{.batch_size = options_.batch_size, .num_workers = options_.num_workers})};
}

LoaderList TableDataModule::val_dataloaders() { return evaluation_loaders(val_); }
LoaderList TableDataModule::test_dataloaders() { return evaluation_loaders(test_); }
LoaderList TableDataModule::predict_dataloaders() { return evaluation_loaders(test_); }

}  // namespace levin
