#include "levin/data/table_reader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/array_bytes.h"
#include "levin/data/data_files.h"

namespace levin::detail {
namespace {

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

}  // namespace

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

at::Tensor read_features(const TableDataOptions& options, const fs::path& path, const LabelledTable& training) {
  const CsvTable table = read_table(path, options, training.label_column ? options.label_column : "");
  at::Tensor values = table.values;
  std::vector<std::string> columns = table.columns;
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

}  // namespace levin::detail
