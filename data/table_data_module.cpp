#include "levin/data/table_data_module.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/options/registry.h"
#include "levin/data/dataset.h"
#include "levin/data/reading_options.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(TableDataModule, "CSV, NumPy or MNIST files, divided into training, validation and test data");

namespace {

/// Of the first file, where the other data has none of its own.
double val_share(const TableDataOptions& table) { return table.val_path.empty() ? table.val_fraction : 0.0; }
double test_share(const TableDataOptions& table) { return table.test_path.empty() ? table.test_fraction : 0.0; }

/// Labels of validation (or test) data lie where those of the training data do.
void declare_label_rules(OptionList<TableDataOptions>& options, const std::string& part, Paths TableDataOptions::*paths,
                         Paths TableDataOptions::*label_paths) {
  const std::string path = part + "_path", label_path = part + "_label_path";
  options.rule({path, "label_path", label_path}, [=](const TableDataOptions& table) -> std::string {
    const std::size_t files = (table.*paths).size(), labels = (table.*label_paths).size();
    if (labels > 0 && files == 0) return format("{} needs {}", label_path, path);
    if (files > 0 && table.label_path.has_value() != (labels > 0)) {
      return format("label_path and {} go together: {} data has its labels where the training data has them", label_path, part);
    }
    if (labels > 0 && files != labels) {
      return format("{} and {} hold {} and {} files: each has a file of labels", path, label_path, files, labels);
    }
    return "";
  });
}

}  // namespace

Paths OptionType<Paths>::read(const Value& value) {
  if (value.is_null()) return {};
  if (value.is_list()) {
    const auto paths = OptionType<std::vector<std::filesystem::path>>::read(value);
    return Paths(paths.begin(), paths.end());
  }
  return OptionType<std::filesystem::path>::read(value);
}

Value OptionType<Paths>::write(const Paths& paths) {
  if (paths.empty()) return {};
  return paths.size() == 1 ? Value(paths[0].string()) : OptionType<std::vector<std::filesystem::path>>::write(paths);
}

Value OptionType<Paths>::schema() {
  return detail::any_of({OptionType<std::filesystem::path>::schema(), OptionType<std::vector<std::filesystem::path>>::schema(),
                         detail::schema_of_type("null")});
}

void TableDataOptions::declare(OptionList<TableDataOptions>& options) {
  using T = TableDataOptions;
  options.add("path", &T::path, "Data: .csv, .tsv, .npy, or MNIST's IDX format; each may be compressed (.gz)")
      .input_file()
      .required()
      .not_empty();
  options.add("label_path", &T::label_path, "File of labels, when they are not a column of the data").input_file();
  options.add("val_path", &T::val_path, "File of validation data, or several, in place of val_fraction").input_file();
  options.add("val_label_path", &T::val_label_path, "Files of labels of the validation data, as many").input_file();
  options.add("test_path", &T::test_path, "File of test data, or several, in place of test_fraction").input_file();
  options.add("test_label_path", &T::test_label_path, "Files of labels of the test data, as many").input_file();
  options.add("predict_path", &T::predict_path, "File to predict all rows of, with or without a column of labels").input_file();
  options.add("label_column", &T::label_column, "Column that is the label: its name, or its number from 0; -1 is the last");
  options.add("task", &T::task, "classification: labels are whole numbers, or texts; regression: any number");
  options.add("header", &T::header, "CSV: whether the first line names the columns; null finds out");
  options.add("delimiter", &T::delimiter, "CSV: what separates fields, one character; a .tsv file has tabs");
  options.add("missing", &T::missing, "CSV: value of empty fields and NA; null makes them an error");
  options
      .add("max_expansion", &T::max_expansion,
           "Compressed files: the most times its own size that one may expand to, from 64 MiB on; more is taken for an attack")
      .min(1)
      .instead(".inf permits any");
  options.add("scale", &T::scale, "Features are multiplied by it");
  options.add("standardize", &T::standardize, "Give each feature mean 0 and deviation 1 over the training data");
  options.add("shape", &T::shape, "Shape of one sample's features, such as [1, 8, 8]; empty: as in the file").min(1);
  options.add("val_fraction", &T::val_fraction, "Part of `path` that is validation data; unused with val_path").min(0).max(1);
  options.add("test_fraction", &T::test_fraction, "Part of `path` that is test data; unused with test_path").min(0).max(1);
  options.add("split_seed", &T::split_seed, "Seed of the division into training, validation and test data");
  declare_loaders(options);
  options.rule({"scale"}, [](const T& table) {
    return table.scale == 0 ? "scale is 0, which leaves nothing of the features: 1.0 takes them as they are" : "";
  });
  options.rule({"delimiter"},
               [](const T& table) { return table.delimiter.size() == 1 ? "" : "delimiter must be one character"; });
  declare_label_rules(options, "val", &T::val_path, &T::val_label_path);
  declare_label_rules(options, "test", &T::test_path, &T::test_label_path);
  options.rule({"val_fraction", "test_fraction"}, [](const T& table) {
    return val_share(table) + test_share(table) >= 1.0 ? "val_fraction and test_fraction leave nothing to train on" : "";
  });
}

/// What files of a table hold, as TableDataOptions say.
struct detail::LabelledTable {
  std::string file = {};     ///< for messages
  at::Tensor features = {};  ///< float32, scaled
  at::Tensor labels = {};    ///< int64 for classification, else float32
  /// Labels that are texts: the texts, sorted, whose indices the labels are.
  std::vector<std::string> classes = {};
  std::vector<std::string> columns = {};          ///< names of all columns; empty without a header
  std::optional<std::int64_t> label_column = {};  ///< where the labels were in that file; unset: in another file
};

namespace {

using detail::LabelledTable;
namespace fs = std::filesystem;

bool ends_with(const fs::path& path, std::string_view extension) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(extension);
}

/// `label_column`: of this file; empty: it has none.
CsvTable read_table(const fs::path& path, const TableDataOptions& options, const std::string& label_column) {
  CsvTable table;
  if (ends_with(path, ".npy")) {
    table.values = read_npy(path, options.max_expansion);
  } else if (ends_with(path, "ubyte") || ends_with(path, ".idx")) {
    table.values = read_idx(path, options.max_expansion);
  } else if (ends_with(path, ".csv") || ends_with(path, ".tsv") || ends_with(path, ".txt")) {
    const bool has_classes = options.task == TableTask::kClassification;
    table = read_csv(path, {.delimiter = ends_with(path, ".tsv") ? '\t' : options.delimiter[0],
                            .header = options.header,
                            .missing = options.missing,
                            .max_expansion = options.max_expansion,
                            .class_column = has_classes ? label_column : ""});
  } else if (std::filesystem::is_directory(path)) {
    throw ConfigError(format("{}: it is a folder, and a file is needed", path));
  } else {
    throw ConfigError(format(
        "{}: the name does not say what the file holds; it ends in .csv, .tsv, .txt, .npy, .idx or ubyte (and .gz)", path));
  }
  if (table.values.dim() < 1 || table.values.numel() == 0) throw ConfigError(path.string() + ": there is no data in it");
  return table;
}

std::int64_t label_column_of(const CsvTable& table, const std::string& wanted, const std::string& file) {
  const std::int64_t width = table.values.size(1);
  if (const auto column = find_column(table.columns, width, wanted)) return *column;
  std::string known = format("0 to {}", width - 1);
  constexpr std::size_t kMostShown = 20;
  for (std::size_t i = 0; i < std::min(table.columns.size(), kMostShown); ++i)
    known += ", " + quoted_text(table.columns[i], 40);
  if (table.columns.size() > kMostShown) known += format(" and {} more", table.columns.size() - kMostShown);
  throw ConfigError(format("label_column: {} has no column {}; it has {}", file, quoted_text(wanted), known));
}

/// "data.csv:7", or "data.npy, row 5 (from 0)".
std::string place_of(const CsvTable& table, std::int64_t row, const std::string& file) {
  const std::int64_t line = table.line_of(row);
  return line > 0 ? format("{}:{}", file, line) : format("{}, row {} (from 0)", file, row);
}

at::Tensor label_tensor(const CsvTable& table, const at::Tensor& labels, TableTask task, const std::string& file) {
  if (task == TableTask::kRegression) return labels.to(at::kFloat);
  const at::Tensor whole = labels.to(at::kLong);
  const at::Tensor wrong = labels.ne(whole).nonzero();
  if (wrong.numel() == 0) return whole;
  const std::int64_t row = wrong[0][0].item<std::int64_t>();
  throw ConfigError(format("{}: the label {} is no whole number: choose another label_column, or task: regression",
                           place_of(table, row, file), labels.select(0, row).flatten()[0].item<double>()));
}

at::Tensor without_column(const at::Tensor& values, std::int64_t column) {
  return at::cat({values.narrow(1, 0, column), values.narrow(1, column + 1, values.size(1) - column - 1)}, 1);
}

at::Tensor scaled(const at::Tensor& features, const TableDataOptions& options) {
  return features.to(at::kFloat) * options.scale;
}

/// Reads features and labels. Throws IoError on a damaged file, ConfigError when options do not fit what it holds.
LabelledTable read_labelled_table(const TableDataOptions& options, const fs::path& path,
                                  const std::optional<fs::path>& label_path) {
  CsvTable table = read_table(path, options, label_path ? "" : options.label_column);
  LabelledTable read{.file = path.string(), .columns = table.columns};
  if (label_path) {
    const CsvTable labels = read_table(*label_path, options, "0");
    const at::Tensor column = labels.values.dim() == 2 && labels.values.size(1) == 1 ? labels.values.squeeze(1) : labels.values;
    if (column.size(0) != table.values.size(0)) {
      throw ConfigError(
          format("{} does not have one label for each of the {} samples of {}", *label_path, table.values.size(0), path));
    }
    read.labels = label_tensor(labels, column, options.task, label_path->string());
    read.classes = labels.classes;
    read.features = scaled(table.values, options);
    return read;
  }
  if (table.values.dim() != 2 || table.values.size(1) < 2) {
    const bool is_text = !table.line_starts.empty();
    throw ConfigError(
        format("{} is no table with a column of labels beside the features: {}give label_path", path,
               is_text ? format("with the delimiter '{}' its lines are one field each; set `delimiter` to what divides them "
                                "(';', or a tab), or ",
                                options.delimiter)
                       : ""));
  }
  read.label_column = label_column_of(table, options.label_column, read.file);
  read.labels = label_tensor(table, table.values.select(1, *read.label_column).contiguous(), options.task, read.file);
  read.classes = table.classes;
  read.features = scaled(without_column(table.values, *read.label_column), options);
  return read;
}

/// Throws ConfigError when the features of `table`, which `option` names, are not those of `training`: in number and shape, and
/// in name and order where both have a header.
void check_same_features(const char* option, const LabelledTable& table, const LabelledTable& training) {
  if (table.features.sizes().slice(1) != training.features.sizes().slice(1)) {
    throw ConfigError(format("{}: a row of {} has {} features, one of {} has {}", option, table.file, table.features[0].numel(),
                             training.file, training.features[0].numel()));
  }
  const auto names_of = [](const LabelledTable& one) {
    std::vector<std::string> names = one.columns;
    if (one.label_column && !names.empty()) names.erase(names.begin() + *one.label_column);
    return names;
  };
  const std::vector<std::string> names = names_of(table);
  const std::vector<std::string> expected = names_of(training);
  for (std::size_t column = 0; column < std::min(names.size(), expected.size()); ++column) {
    if (names[column] == expected[column]) continue;
    throw ConfigError(format("{}: feature {} of {} is called {}, that of {} {}", option, column, table.file,
                             quoted_text(names[column], 40), training.file, quoted_text(expected[column], 40)));
  }
}

/// Reads the features of a file that may have a column of labels or not, and has those of `training` otherwise. Throws alike.
at::Tensor read_features(const TableDataOptions& options, const fs::path& path, const LabelledTable& training) {
  CsvTable table = read_table(path, options, training.label_column ? options.label_column : "");
  auto& [columns, values, classes, lines] = table;
  if (training.label_column && values.dim() == 2) {
    const std::int64_t with_label = training.features.size(1) + 1;
    const auto label = training.columns.empty() ? columns.end()
                                                : std::find(columns.begin(), columns.end(),
                                                            training.columns[static_cast<std::size_t>(*training.label_column)]);
    const std::int64_t column = label != columns.end() ? label - columns.begin() : *training.label_column;
    if (label != columns.end() || values.size(1) == with_label) {
      values = without_column(values, column);
      if (!columns.empty()) columns.erase(columns.begin() + column);
    }
  }
  check_same_features("predict_path", {.file = path, .features = values, .columns = columns}, training);
  return scaled(values, options);
}

/// The labels as indices of these classes, which may be another file's or an earlier run's. Throws ConfigError that names a
/// label which is not among them.
at::Tensor labels_among(const std::vector<std::string>& classes, const LabelledTable& table) {
  if (classes == table.classes) return table.labels;
  if (classes.empty() || table.classes.empty()) {
    throw ConfigError(
        format("{}: its labels are {}, those of the training data are not", table.file, classes.empty() ? "texts" : "numbers"));
  }
  std::vector<std::int64_t> index_of;
  for (const std::string& text : table.classes) {
    const auto found = std::find(classes.begin(), classes.end(), text);
    if (found == classes.end()) {
      throw ConfigError(format("{}: the label {} is not among the classes of the training data: {}", table.file,
                               quoted_text(text, 40), quoted_list(classes)));
    }
    index_of.push_back(found - classes.begin());
  }
  return at::tensor(index_of, at::kLong).index_select(0, table.labels);
}

/// These rows of a table.
std::shared_ptr<LabelledTable> rows_of(const LabelledTable& table, const Subset& part) {
  const at::Tensor rows = at::tensor(part.indices(), at::kLong);
  auto taken = std::make_shared<LabelledTable>(table);
  taken->features = table.features.index_select(0, rows);
  taken->labels = table.labels.index_select(0, rows);
  return taken;
}

void check_shape(const TableDataOptions& options, const at::Tensor& features) {
  // As a float, which does not overflow.
  const double elements = std::accumulate(options.shape.begin(), options.shape.end(), 1.0, std::multiplies<>());
  const std::int64_t of_sample = features[0].numel();
  if (options.shape.empty() || elements == static_cast<double>(of_sample)) return;
  throw ConfigError(format("shape: holds {:.0f} features, a sample of {} has {}", elements, options.path, of_sample));
}

Value list_of(const at::Tensor& numbers) {
  const at::Tensor doubles = numbers.to(at::kDouble).contiguous();
  const auto* const first = doubles.const_data_ptr<double>();
  return OptionType<std::vector<double>>::write({first, first + doubles.numel()});
}

/// The numbers of a list, in the shape of `like`.
at::Tensor tensor_of(const Value& list, const at::Tensor& like) {
  const auto numbers = OptionType<std::vector<double>>::read(list);
  if (static_cast<std::int64_t>(numbers.size()) != like.numel()) {
    throw ConfigError(
        format("TableDataModule: the checkpoint is of data with {} features, this data has {}", numbers.size(), like.numel()));
  }
  return at::tensor(numbers, at::kDouble).to(at::kFloat).reshape(like.sizes());
}

/// A table, known by what its file holds: what is computed from that may differ in its last bit between processors.
class TableDataset final : public Dataset {
 public:
  TableDataset(Batch computed, Batch read) : computed_(std::move(computed)), read_(std::move(read)) {}
  std::int64_t size() const override { return computed_.size(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override { return computed_.get_batch(indices); }
  std::optional<std::uint64_t> fingerprint() const override { return DataFingerprint().add(read_).value(); }

 private:
  TensorDataset computed_;
  Batch read_;
};

}  // namespace

TableDataModule::TableDataModule(TableDataOptions options) : options_(checked("TableDataModule", std::move(options))) {
  set_hparams(write_options(options_));
}

void TableDataModule::setup(Stage) {
  if (train_) return;
  const LabelledTable table = read_labelled_table(options_, options_.path, options_.label_path);
  check_shape(options_, table.features);
  std::vector<double> fractions{0.0, val_share(options_), test_share(options_)};
  fractions[0] = 1.0 - fractions[1] - fractions[2];
  const auto whole = std::make_shared<TensorDataset>(Batch{{"features", table.features}, {"label", table.labels}});
  const auto parts = random_split(whole, fractions, options_.split_seed);
  // Where nothing is divided off, rows keep the file's order, for those who do not shuffle.
  train_ = fractions[0] < 1.0 ? rows_of(table, *parts[0]) : std::make_shared<LabelledTable>(table);
  val_ = {rows_of(table, *parts[1])};
  test_ = {rows_of(table, *parts[2])};
  const auto read = [&](const char* option, const Paths& paths, const Paths& label_paths, Parts& files) {
    if (!paths.empty()) files.clear();
    for (std::size_t index = 0; index < paths.size(); ++index) {
      const auto labels = label_paths.empty() ? std::nullopt : std::optional(label_paths[index]);
      files.push_back(std::make_shared<LabelledTable>(read_labelled_table(options_, paths[index], labels)));
      check_same_features(option, *files.back(), table);
    }
  };
  read("val_path", options_.val_path, options_.val_label_path, val_);
  read("test_path", options_.test_path, options_.test_label_path, test_);
  predict_ = test_;
  if (options_.predict_path) {
    predict_ = {std::make_shared<LabelledTable>()};
    predict_[0]->features = read_features(options_, *options_.predict_path, table);
  }
  std::tie(deviation_, mean_) = at::std_mean(train_->features, at::IntArrayRef{0}, /*unbiased=*/false, /*keepdim=*/false);
  classes_ = table.classes;
  if (!classes_.empty()) rank_zero_info(format("{}: its labels are texts: {}", table.file, quoted_list(classes_)));
}

DataFacts TableDataModule::facts() const {
  DataFacts facts;
  if (!train_) return facts;
  facts.features = options_.shape.empty() ? train_->features.sizes().slice(1).vec() : options_.shape;
  if (options_.task == TableTask::kRegression) {
    facts.label_mean = train_->labels.mean().item<double>();
    const double deviation = train_->labels.std(/*unbiased=*/false).item<double>();
    if (deviation > 0) facts.label_deviation = deviation;
  } else if (!classes_.empty()) {
    facts.classes = std::ssize(classes_);
  } else {
    std::int64_t least = 0, most = 0, samples = 0;
    for (const Parts& parts : {Parts{train_}, val_, test_}) {
      for (const auto& part : parts) {
        if (part->labels.numel() == 0) continue;
        samples += part->labels.numel();
        least = std::min(least, part->labels.min().item<std::int64_t>());
        most = std::max(most, part->labels.max().item<std::int64_t>());
      }
    }
    if (least == 0 && most < samples) facts.classes = most + 1;
  }
  return facts;
}

Value TableDataModule::state_dict() const {
  Value state;
  if (!classes_.empty()) state["classes"] = OptionType<std::vector<std::string>>::write(classes_);
  if (options_.standardize && mean_.defined()) {
    state["mean"] = list_of(mean_);
    state["deviation"] = list_of(deviation_);
  }
  return state;
}

void TableDataModule::load_state_dict(const Value& state) {
  if (const Value* texts = state.find("classes")) classes_ = OptionType<std::vector<std::string>>::read(*texts);
  const Value* mean = state.find("mean");
  if (mean == nullptr || !options_.standardize) return;
  mean_ = tensor_of(*mean, mean_);
  deviation_ = tensor_of(state.at("deviation"), deviation_);
}

DatasetPtr TableDataModule::dataset_of(const std::shared_ptr<detail::LabelledTable>& part) const {
  at::Tensor features = part->features;
  if (options_.standardize) {
    features = (features - mean_) / at::where(deviation_ > 0, deviation_, at::ones_like(deviation_));
  }
  if (!options_.shape.empty()) {
    std::vector<std::int64_t> shape{features.size(0)};
    shape.insert(shape.end(), options_.shape.begin(), options_.shape.end());
    features = features.reshape(shape);
  }
  Batch batch{{"features", features}};
  Batch read{{"features", part->features}};
  if (part->labels.defined()) {
    batch.set("label", labels_among(classes_, *part));
    read.set("label", batch["label"]);
  }
  return std::make_shared<TableDataset>(std::move(batch), std::move(read));
}

LoaderPtr TableDataModule::train_dataloader() { return DataLoader(dataset_of(train_), training_options(options_)); }

LoaderList TableDataModule::evaluation_loaders(const Parts& parts) const {
  LoaderList loaders;
  for (const auto& part : parts) {
    if (part->features.size(0) > 0) loaders.push_back(DataLoader(dataset_of(part), reading_options(options_)));
  }
  return loaders;
}

LoaderList TableDataModule::val_dataloaders() { return evaluation_loaders(val_); }
LoaderList TableDataModule::test_dataloaders() { return evaluation_loaders(test_); }
LoaderList TableDataModule::predict_dataloaders() { return evaluation_loaders(predict_); }

}  // namespace levin
