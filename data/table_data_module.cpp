#include "levin/data/table_data_module.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/data/dataset.h"
#include "levin/data/labelled_table.h"
#include "levin/data/reading_options.h"
#include "levin/data/table_encoder.h"
#include "levin/data/table_input.h"
#include "levin/data/table_learner.h"
#include "levin/data/table_part.h"
#include "levin/data/table_reader.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(TableDataModule,
                           "CSV, Parquet, NumPy or MNIST files, divided into training, validation and test data");

namespace {

/// Of the first file, where the other data has none.
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

MissingValues MissingValues::dropped() {
  MissingValues missing;
  missing.drop = true;
  return missing;
}

MissingRule MissingValues::of(const std::string& column, std::int64_t number_in_file) const {
  const auto is_of = [&](const auto& named) {
    const std::string& name = named.first;
    return name == column || name == format("{}", number_in_file) || column.starts_with(format("{}[", name));
  };
  const auto found = std::ranges::find_if(columns, is_of);
  return found == columns.end() ? *this : found->second;
}

bool MissingValues::drops_rows() const {
  return drop || std::ranges::any_of(columns, [](const auto& column) { return column.second.drop; });
}

namespace {

MissingRule read_missing_rule(const Value& value) {
  if (value.is_null()) return {};
  if (value.is_number()) return {.number = value.as_double()};
  if (value.is_string() && value.as_string() == "drop") return {.drop = true};
  throw ConfigError(value.mark(), format("must be a number or 'drop', got {}", describe(value)));
}

Value write_missing_rule(const MissingRule& rule) {
  if (rule.drop) return Value("drop");
  return rule.number ? Value(*rule.number) : Value();
}

}  // namespace

MissingValues OptionType<MissingValues>::read(const Value& value) {
  MissingValues missing;
  if (value.is_map()) {
    for (const auto& [column, rule] : value.as_map()) missing.columns[column] = read_missing_rule(rule);
  } else {
    static_cast<MissingRule&>(missing) = read_missing_rule(value);
  }
  return missing;
}

Value OptionType<MissingValues>::write(const MissingValues& missing) {
  Value value = write_missing_rule(missing);
  for (const auto& [column, rule] : missing.columns) value[column] = write_missing_rule(rule);
  return value;
}

Value OptionType<MissingValues>::schema() {
  const Value number = OptionType<double>::schema();
  Value drop;
  drop["const"] = "drop";
  const Value each = detail::any_of({number, drop, detail::schema_of_type("null")});
  Value map = detail::schema_of_type("object");
  map["additionalProperties"] = each;
  return detail::any_of({number, drop, map, detail::schema_of_type("null")});
}

void TableDataOptions::declare(OptionList<TableDataOptions>& options) {
  using T = TableDataOptions;
  options
      .add("path", &T::path,
           "Data: .csv, .tsv, .parquet, .feather, .npy, or MNIST's IDX format, also compressed (.gz, .zst); a list or a "
           "pattern of "
           "tables is "
           "one table")
      .input_file()
      .required()
      .not_empty();
  options.add("label_path", &T::label_path, "File of labels, when they are not a column of the data").input_file();
  options.add("val_path", &T::val_path, "File of validation data, or several, instead of val_fraction").input_file();
  options.add("val_label_path", &T::val_label_path, "Files of labels of the validation data, as many").input_file();
  options.add("test_path", &T::test_path, "File of test data, or several, instead of test_fraction").input_file();
  options.add("test_label_path", &T::test_label_path, "Files of labels of the test data, as many").input_file();
  options.add("predict_path", &T::predict_path, "File to predict all rows of, with or without a column of labels").input_file();
  options.add("label_column", &T::label_column, "Column that is the label: its name, or its number from 0; -1 is the last");
  options.add("ignore_columns", &T::ignore_columns, "Columns to ignore, by name or number, whatever they hold");
  options.add("one_hot_columns", &T::one_hot_columns,
              "Columns of categories, each of which becomes a feature that is 1 or 0; texts or numbers; Parquet: columns of "
              "texts are without being named");
  options.add("code_columns", &T::code_columns, "Columns of categories, whose numbers from 0 on become one feature");
  options.add("unknown_categories", &T::unknown_categories,
              "A category that the training data lacks. error: ends the run; other: 0 in all one-hot features, the code after "
              "the last");
  options.add("task", &T::task, "classification: labels are whole numbers, or texts; regression: any number");
  options.add("header", &T::header, "CSV: whether the first line names the columns; null finds out");
  options.add(
      "delimiter", &T::delimiter,
      "CSV: what separates fields, one character; \\t is a tab, which .tsv files have; a blank stands for several, too");
  options.add("decimal", &T::decimal, "CSV: the decimal mark of numbers, a point or a comma");
  options.add(
      "missing", &T::missing,
      "Value of empty fields, NA and NaN; drop: their rows are left out; a map says it by column; null: an error, and a "
      "warning of NaN");
  options.add("time_unit", &T::time_unit, "Parquet: what dates and times are counted in, since 1970");
  options
      .add("max_expansion", &T::max_expansion,
           "Compressed files: the most times its own size that one may expand to, from 64 MiB on; more is an error, as it may "
           "be an attack")
      .min(1)
      .instead(".inf permits any");
  options
      .add("max_memory_mb", &T::max_memory_mb,
           "Parquet: most memory for the rows of a table, in MB; those that need more are read as a stream; null: no bound")
      .above(0);
  options.add("scale", &T::scale, "Features are multiplied by it");
  options.add("standardize", &T::standardize,
              "Give each feature mean 0 and deviation 1 over the training data, but for those of categories");
  options.add("standardize_labels", &T::standardize_labels,
              "Regression: give labels mean 0 and deviation 1 over the training data, so that losses are in deviations");
  options.add("map_labels", &T::map_labels,
              "Classification: number labels that occur, such as 1, 2, 3, become 0, 1, 2 in their order");
  options.add("shape", &T::shape, "Shape of one sample's features, such as [1, 8, 8]; empty: as in the file").min(1);
  options.add("val_fraction", &T::val_fraction, "Part of `path` that is validation data; unused with val_path").min(0).max(1);
  options.add("test_fraction", &T::test_fraction, "Part of `path` that is test data; unused with test_path").min(0).max(1);
  options.add("split_seed", &T::split_seed, "Seed of the division into training, validation and test data");
  declare_loaders(options);
  options.rule({"path"}, [](const T& table) { return table.path.empty() ? "path names no file" : ""; });
  options.rule({"scale"}, [](const T& table) {
    return table.scale == 0 ? "scale is 0, which leaves nothing of the features: 1.0 takes them unchanged" : "";
  });
  options.rule({"missing", "label_path"}, [](const T& table) {
    return table.missing.drops_rows() && table.label_path
               ? "missing: drop needs the labels as a column of the data: give label_column"
               : "";
  });
  options.rule({"delimiter"}, [](const T& table) {
    return table.delimiter.size() == 1 || table.delimiter == "\\t" ? "" : "delimiter must be one character";
  });
  options.rule({"decimal"},
               [](const T& table) { return table.decimal == "." || table.decimal == "," ? "" : "decimal must be . or ,"; });
  options.rule({"task", "standardize_labels", "map_labels"}, [](const T& table) {
    const bool is_regression = table.task == TableTask::kRegression;
    if (table.standardize_labels && !is_regression)
      return "standardize_labels is for task: regression: class numbers are not measurements";
    return table.map_labels && is_regression ? "map_labels is for task: classification" : "";
  });
  declare_label_rules(options, "val", &T::val_path, &T::val_label_path);
  declare_label_rules(options, "test", &T::test_path, &T::test_label_path);
  options.rule({"val_fraction", "test_fraction"}, [](const T& table) {
    return val_share(table) + test_share(table) >= 1.0 ? "val_fraction and test_fraction leave nothing to train on" : "";
  });
}

namespace {

using detail::LabelledTable;

void check_shape(const TableDataOptions& options, const std::vector<std::int64_t>& shape_of_sample) {
  // As a float, which does not overflow.
  const auto elements_of = [](const std::vector<std::int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>());
  };
  const double elements = elements_of(options.shape), of_sample = elements_of(shape_of_sample);
  if (options.shape.empty() || elements == of_sample) return;
  throw ConfigError(
      format("shape: holds {:.0f} features, a sample of {} has {:.0f}", elements, options.path.front(), of_sample));
}

/// Files that replace a part of the training data's file, each with its labels, where these are not a column.
void read_files(const detail::TableReader& reader, const TableDataOptions& options, const char* option, const Paths& paths,
                const Paths& label_paths, std::vector<std::shared_ptr<const detail::TablePart>>& parts) {
  if (!paths.empty()) parts.clear();
  for (std::size_t index = 0; index < paths.size(); ++index) {
    if (label_paths.empty()) {
      if (const auto stream = reader.stream(option, paths[index], /*is_predicted=*/false)) {
        parts.push_back(detail::whole_part(stream, options, /*has_labels=*/true));
        continue;
      }
    }
    const auto labels = label_paths.empty() ? std::nullopt : std::optional(label_paths[index]);
    parts.push_back(detail::whole_part(reader.read(option, paths[index], labels)));
  }
}

std::shared_ptr<const detail::TablePart> read_to_predict(const detail::TableReader& reader, const TableDataOptions& options) {
  if (const auto stream = reader.stream("predict_path", *options.predict_path, /*is_predicted=*/true))
    return detail::whole_part(stream, options, /*has_labels=*/false);
  return detail::whole_part(reader.read_to_predict(*options.predict_path));
}

}  // namespace

TableDataModule::TableDataModule(TableDataOptions options) : TableDataModule("TableDataModule", std::move(options)) {}

TableDataModule::TableDataModule(const std::string& class_name, TableDataOptions options)
    : options_(checked(class_name, std::move(options))), encoder_(std::make_shared<detail::TableEncoder>(options_)) {
  set_hparams(write_options(options_));
}

void TableDataModule::setup(Stage) {
  if (train_) return;
  detail::TableReader reader(options_);
  detail::TableLearner learner(options_);
  const double val = val_share(options_), test = test_share(options_);
  const auto stream = reader.stream_training();
  const detail::TableParts parts = stream ? detail::divided(stream, val, test, options_, learner)
                                          : detail::divided(reader.read_training(), val, test, options_, learner);
  if (parts.val) val_ = {parts.val};
  if (parts.test) test_ = {parts.test};
  read_files(reader, options_, "val_path", options_.val_path, options_.val_label_path, val_);
  read_files(reader, options_, "test_path", options_.test_path, options_.test_label_path, test_);
  predict_ = test_;
  if (options_.predict_path) predict_ = {read_to_predict(reader, options_)};
  encoder_->learn(learner);
  check_shape(options_, encoder_->shape());
  train_ = parts.train;
  tell_what_is_learnt();
}

void TableDataModule::tell_what_is_learnt() const {
  const detail::LabelSummary labels = train_->labels();
  if (!classes().empty()) {
    rank_zero_info(format("{}: its labels are {}: {}", train_->file(),
                          options_.map_labels ? "mapped to numbers from 0" : "texts", detail::shown_names(classes())));
  } else if (options_.task == TableTask::kClassification && labels.rows() > 0 && labels.least() != 0 &&
             labels.most() - labels.least() < labels.rows()) {
    rank_zero_info(
        format("{}: its labels go from {} to {}, and classes count from 0: map_labels: true makes classes of the labels that "
               "occur",
               train_->file(), labels.least(), labels.most()));
  }
  constexpr std::size_t kMostShown = 10;
  for (const TableCategories& categories : categories()) {
    std::vector<std::string> shown = categories.texts;
    shown.resize(std::min(shown.size(), kMostShown));
    const std::size_t more = categories.texts.size() - shown.size();
    rank_zero_info(format("{}: column {} becomes {}: {}{}", train_->file(), quoted_text(categories.column, 40),
                          categories.one_hot ? counted(categories.texts.size(), "feature") : "codes from 0 on",
                          quoted_list(shown), more > 0 ? format(" and {} more", more) : ""));
  }
}

DataFacts TableDataModule::facts() const {
  DataFacts facts;
  if (!encoder_->knows_data()) return facts;
  facts.features = options_.shape.empty() ? encoder_->shape() : options_.shape;
  if (options_.task == TableTask::kRegression) {
    if (options_.standardize_labels || !train_) return facts;  // 0 and 1
    const LabelScale scale = train_->labels().scale();
    facts.label_mean = scale.mean;
    facts.label_deviation = scale.deviation;
  } else {
    facts.classes = number_of_classes();
    facts.class_names = classes();
  }
  return facts;
}

std::optional<std::int64_t> TableDataModule::number_of_classes() const {
  if (!classes().empty()) return std::ssize(classes());
  if (saved_classes_ || !train_) return saved_classes_;
  std::optional<std::int64_t> least;
  std::int64_t most = 0, samples = 0;
  for (const Parts& parts : {Parts{train_}, val_, test_}) {
    for (const auto& part : parts) {
      const detail::LabelSummary labels = part->labels();
      if (labels.rows() == 0) continue;
      samples += labels.rows();
      least = std::min(least.value_or(labels.least()), labels.least());
      most = std::max(most, labels.most());
    }
  }
  return least == 0 && most < samples ? std::optional(most + 1) : std::nullopt;
}

Value TableDataModule::state_dict() const {
  Value state = encoder_->state_dict();
  const bool are_numbers = train_ && options_.task == TableTask::kClassification && classes().empty();
  if (const auto count = are_numbers ? number_of_classes() : std::nullopt) state["number_of_classes"] = *count;
  return state;
}

void TableDataModule::load_state_dict(const Value& state) {
  if (const Value* count = state.find("number_of_classes")) saved_classes_ = count->as_int();
  encoder_->load_state_dict(state);
}

LabelScale TableDataModule::label_scale() const { return encoder_->label_scale(); }
const std::vector<std::string>& TableDataModule::classes() const { return encoder_->classes(); }
const std::vector<TableCategories>& TableDataModule::categories() const { return encoder_->categories(); }

Batch TableDataModule::prepare(Batch batch) const {
  const LabelledTable table = detail::table_of(*encoder_, options_, batch.contains("features") ? batch["features"] : batch[0]);
  if (batch.size() == 1) batch = {};
  batch.set("features", encoder_->finished(encoder_->encoded(table)));
  return batch;
}

Batch TableDataModule::prepare_records(const std::vector<Value>& records) const {
  return {{"features", encoder_->finished(encoder_->encoded(detail::table_of(*encoder_, options_, records)))}};
}

std::vector<std::string> TableDataModule::preparations() const { return encoder_->preparations(); }

LoaderPtr TableDataModule::train_dataloader() { return train_->loader(*encoder_, options_, /*is_training=*/true); }

LoaderList TableDataModule::evaluation_loaders(const Parts& parts) const {
  LoaderList loaders;
  for (const auto& part : parts) {
    if (part->rows() > 0) loaders.push_back(part->loader(*encoder_, options_, /*is_training=*/false));
  }
  return loaders;
}

LoaderList TableDataModule::val_dataloaders() { return evaluation_loaders(val_); }
LoaderList TableDataModule::test_dataloaders() { return evaluation_loaders(test_); }
LoaderList TableDataModule::predict_dataloaders() { return evaluation_loaders(predict_); }

}  // namespace levin
