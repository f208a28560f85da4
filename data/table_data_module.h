#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/core/label_scale.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/data/read_file.h"

namespace levin {

namespace detail {
class TablePart;
class TableEncoder;
}  // namespace detail

/// What labels are: whole numbers or texts, or any numbers.
enum class TableTask : std::uint8_t { kClassification, kRegression };
template <>
inline constexpr std::array kChoices<TableTask> = {Choice{TableTask::kClassification, "classification"},
                                                   Choice{TableTask::kRegression, "regression"}};

/// What becomes of a text in a column of categories that the training data does not have.
enum class UnknownCategories : std::uint8_t { kError, kOther };
template <>
inline constexpr std::array kChoices<UnknownCategories> = {Choice{UnknownCategories::kError, "error"},
                                                           Choice{UnknownCategories::kOther, "other"}};

/// The numbers that dates and times become.
enum class TableTimeUnit : std::uint8_t { kSeconds, kDays };
template <>
inline constexpr std::array kChoices<TableTimeUnit> = {Choice{TableTimeUnit::kSeconds, "seconds"},
                                                       Choice{TableTimeUnit::kDays, "days"}};

/// What becomes of the missing values of a column. Default: they are errors.
struct MissingRule {
  std::optional<double> number = {};  ///< stands for them
  bool drop = false;                  ///< rows with them are left out
  bool operator==(const MissingRule&) const = default;
};

/// What becomes of missing values. In YAML null, a number, `drop`, or a map of these by the names of columns:
///
///     missing: {age: 0, price: drop}
struct LEVIN_API MissingValues : MissingRule {
  MissingValues() = default;
  MissingValues(double number) { this->number = number; }
  MissingValues(std::map<std::string, MissingRule> by_column) : columns(std::move(by_column)) {}
  /// Leaves out the rows that have some.
  static MissingValues dropped();
  /// What becomes of those of a column, by its name, or the number that it has in the file. Lists are named as a whole, too.
  MissingRule of(const std::string& column, std::int64_t number_in_file = -1) const;
  bool drops_rows() const;
  bool operator==(const MissingValues&) const = default;

  std::map<std::string, MissingRule> columns = {};  ///< of those alone, where it is not empty
};

template <>
struct LEVIN_API OptionType<MissingValues> {
  static MissingValues read(const Value& value);
  static Value write(const MissingValues& missing);
  static std::string name() { return "number, 'drop', map of these or null"; }
  static Value schema();
};

/// The categories of a column, as the training data has them.
struct LEVIN_API TableCategories {
  std::string column = {};              ///< its name, or its number in the file
  std::vector<std::string> texts = {};  ///< sorted, as numbers where all are; the first has the code 0
  bool one_hot = false;                 ///< a feature for each text; else one, the text's code
};

/// One file, or several: in YAML a path or a list of them. A path may be a pattern ("parts/*.csv"), or a folder of Parquet
/// files.
class LEVIN_API Paths : public std::vector<std::filesystem::path> {
 public:
  using std::vector<std::filesystem::path>::vector;
  Paths() = default;
  Paths(std::filesystem::path path) { push_back(std::move(path)); }
  Paths(const char* path) : Paths(std::filesystem::path(path)) {}
  Paths(const std::string& path) : Paths(std::filesystem::path(path)) {}
};

template <>
struct LEVIN_API OptionType<Paths> {
  static Paths read(const Value& value);
  static Value write(const Paths& paths);
  static std::string name() { return "path, list of path or null"; }
  static Value schema();
};

/// Options of TableDataModule; in YAML the init_args of `data:`.
struct LEVIN_API TableDataOptions {
  Paths path = {};  ///< rows of all files, as of one
  std::optional<std::filesystem::path> label_path = {};
  Paths val_path = {};  ///< a loader for each
  Paths val_label_path = {};
  Paths test_path = {};
  Paths test_label_path = {};
  std::optional<std::filesystem::path> predict_path = {};
  std::string label_column = "-1";
  std::vector<std::string> ignore_columns = {};
  std::vector<std::string> one_hot_columns = {};
  std::vector<std::string> code_columns = {};
  UnknownCategories unknown_categories = UnknownCategories::kError;
  TableTask task = TableTask::kClassification;
  std::optional<bool> header = {};
  std::string delimiter = ",";
  std::string decimal = ".";
  MissingValues missing = {};
  TableTimeUnit time_unit = TableTimeUnit::kSeconds;
  double max_expansion = kMaxExpansion;
  /// Most memory for the rows of a table; those of Parquet files that need more are read as a stream. Unset: no bound.
  std::optional<double> max_memory_mb = {};
  double scale = 1.0;
  bool standardize = false;
  bool standardize_labels = false;
  bool map_labels = false;
  std::vector<std::int64_t> shape = {};
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

  static void declare(OptionList<TableDataOptions>& options);
};

/// Data from files, without a line of code: a CSV, Parquet, Feather or NumPy table with a label column, or features and labels
/// in two NumPy or IDX (MNIST) files. Batches hold "features" (float32) and "label" (int64 for classification, else float32).
/// One file is divided at random, the same way on every rank and in every run, into training, validation and test data; those
/// that have their own files are left out of that. Of several files of validation or test data each has a loader.
///
/// What is learnt from the training data is in the checkpoint, and a run that starts from one uses that: mean and deviation of
/// each feature with `standardize`, and of the labels with `standardize_labels`; the categories of one_hot_columns and
/// code_columns; the texts of labels, whose indices in alphabetical order are what batches hold; how many classes there are;
/// and the names of the columns, by which features are found in other files.
///
///     levin::TableDataModule data({.path = "train.csv", .ignore_columns = {"id"}, .one_hot_columns = {"color"},
///                                  .standardize = true});
class LEVIN_API TableDataModule : public DataModule, public ScalesLabels {
 public:
  using Options = TableDataOptions;

  /// Throws ConfigError as checked() does.
  explicit TableDataModule(TableDataOptions options);

  /// Reads the files, once. Throws IoError on a damaged file, ConfigError when options do not fit what it holds.
  void setup(Stage stage) override;
  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override;
  LoaderList test_dataloaders() override;
  /// All of it, once setup() has run. Classes are not known where a label is below 0, or above the number of samples.
  DataFacts facts() const override;
  /// All rows of predict_path, in their order and without labels; else the test data.
  LoaderList predict_dataloaders() override;
  Value state_dict() const override;
  /// Throws ConfigError when `path` lacks columns of the data that it is of, or has other columns of categories.
  void load_state_dict(const Value& state) override;
  /// With standardize_labels, mean and deviation of the training data's labels; else {0, 1}.
  LabelScale label_scale() const override;
  /// Of "features", or of a tensor alone: [N, …] with the columns of the file but the label and ignored ones, those of
  /// categories as numbers into categories(). A checkpoint's state is enough for it.
  Batch prepare(Batch batch) const override;
  Batch prepare_records(const std::vector<Value>& records) const override;
  std::vector<std::string> preparations() const override;
  /// The texts of labels by their number in batches, once setup() has run; empty where labels are numbers.
  const std::vector<std::string>& classes() const;
  /// Of one_hot_columns and code_columns, in the order of the file, once setup() has run.
  const std::vector<TableCategories>& categories() const;

 protected:
  /// For classes with the same options: `class_name` is theirs, in errors.
  TableDataModule(const std::string& class_name, TableDataOptions options);

 private:
  void tell_what_is_learnt() const;
  std::optional<std::int64_t> number_of_classes() const;
  using Parts = std::vector<std::shared_ptr<const detail::TablePart>>;
  LoaderList evaluation_loaders(const Parts& parts) const;

  TableDataOptions options_;
  std::shared_ptr<const detail::TablePart> train_;
  Parts val_;
  Parts test_;
  Parts predict_;
  std::shared_ptr<detail::TableEncoder> encoder_;
  std::optional<std::int64_t> saved_classes_;  ///< how many, of a checkpoint
};

}  // namespace levin
