#include "levin/data/labelled_table.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <span>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/column_file.h"
#include "levin/data/array_files.h"
#include "levin/data/column_table.h"
#include "levin/data/csv_text.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

bool ends_with(const fs::path& path, std::string_view extension) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(extension);
}

bool is_csv(const fs::path& path) { return ends_with(path, ".csv") || ends_with(path, ".tsv") || ends_with(path, ".txt"); }
/// Of columns, which may have names and hold texts; else it is one array.
bool is_table(const fs::path& path) { return is_csv(path) || column_format_of(path) != nullptr; }

/// As readers take it: NaN marks what is missing in rows that are left out.
std::optional<double> standing_for(const MissingRule& missing) {
  return missing.drop ? std::numeric_limits<double>::quiet_NaN() : missing.number;
}
std::map<std::string, double> standing_in_columns(const MissingValues& missing) {
  std::map<std::string, double> numbers;
  for (const auto& [column, values] : missing.columns)
    if (const auto number = standing_for(values)) numbers[column] = *number;
  return numbers;
}

CsvOptions csv_options(const TableDataOptions& options, const fs::path& path) {
  const bool has_tabs = ends_with(path, ".tsv") || options.delimiter == "\\t";
  return {.delimiter = has_tabs ? '\t' : options.delimiter[0],
          .header = options.header,
          .missing = standing_for(options.missing),
          .missing_in = standing_in_columns(options.missing),
          .decimal = options.decimal[0],
          .max_expansion = options.max_expansion};
}

/// "0 to 3, 'a', 'b', 'c', 'd'"
std::string known_columns(const CsvTable& table) {
  constexpr std::size_t kMostShown = 20;
  const std::vector<std::string>& names = table.columns_of_file;
  if (table.width_of_file == 0) return "no columns";
  std::string known = format("0 to {}", table.width_of_file - 1);
  for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i) known += ", " + quoted_text(names[i], 40);
  if (names.size() > kMostShown) known += format(" and {} more", names.size() - kMostShown);
  return known;
}

/// The number in the file of a column that `option` names.
std::int64_t find_in_file(const char* option, const CsvTable& table, const std::string& wanted, const std::string& file) {
  const std::vector<std::string>& names = table.columns_of_file;
  if (std::count(names.begin(), names.end(), wanted) > 1) {
    throw ConfigError(
        format("{}: {} has several columns {}: say which by its number, from 0", option, file, quoted_text(wanted)));
  }
  if (const auto column = find_column(names, table.width_of_file, wanted)) return *column;
  throw ConfigError(format("{}: {} has no column {}; it has {}", option, file, quoted_text(wanted), known_columns(table)));
}

/// Where a column of the file is among the values; unset when it was left out.
std::optional<std::int64_t> place_among_values(const CsvTable& table, std::int64_t column) {
  if (table.places.empty()) return column;
  const auto found = std::find(table.places.begin(), table.places.end(), column);
  return found == table.places.end() ? std::nullopt : std::optional<std::int64_t>(found - table.places.begin());
}

at::Tensor without_column(const at::Tensor& values, std::int64_t column) {
  return at::cat({values.narrow(1, 0, column), values.narrow(1, column + 1, values.size(1) - column - 1)}, 1);
}

/// "data.csv:7", or "data.npy, row 5 (from 0)": of a row among those that were read.
std::string place_in_file(const std::string& file, const CsvTable& table, std::int64_t row) {
  const auto next = std::ranges::upper_bound(table.file_starts, row, {}, [](const auto& start) { return start.first; });
  if (next != table.file_starts.begin())
    return format("{}, row {} (from 0)", std::prev(next)->second, row - std::prev(next)->first);
  const std::int64_t line = table.line_of(row);
  return line > 0 ? format("{}:{}", file, line) : format("{}, row {} (from 0)", file, row);
}

/// The number of such a row, of one that stayed.
std::int64_t row_as_read(const at::Tensor& rows, std::int64_t row) {
  return rows.defined() ? rows[row].item<std::int64_t>() : row;
}

/// Says which values are not numbers to compute with.
void check_values(CsvTable& table, const std::string& file) {
  if (!table.values.is_floating_point()) return;
  const auto report = [&](const at::Tensor& found, const char* what, const char* cure) {
    if (!found.any().item<bool>()) return;
    const at::Tensor first = found.nonzero()[0];
    const auto row = first[0].item<std::int64_t>();
    std::string column;
    if (first.numel() == 2) {
      const auto place = static_cast<std::size_t>(first[1].item<std::int64_t>());
      column = table.columns.empty()
                   ? format(", column {}", table.places.empty() ? static_cast<std::int64_t>(place) : table.places[place])
                   : format(", column {}", quoted_text(table.columns[place], 40));
    }
    const auto count = static_cast<std::size_t>(found.sum().item<std::int64_t>());
    rank_zero_warn(format("{}: {} {} {}, the first in {}{}. {}", file, counted(count, "value"), count == 1 ? "is" : "are", what,
                          place_in_file(file, table, row_as_read(table.rows, row)), column, cure));
  };
  report(at::isnan(table.values), "NaN",
         "A loss of them is NaN: set `missing` to the number that stands for them, or leave them out.");
  report(at::isinf(table.values), "infinite", "No loss can be computed of them: leave them out, or correct them.");
}

/// Whether 32-bit floats distinguish the values of a column. Columns without a deviation have nothing to distinguish.
bool is_coarse_in_32_bits(const at::Tensor& column) {
  constexpr double kHalfStep = 1.0 / (1 << 24);  // of a 32-bit float, relative to it
  constexpr double kMostOfDeviation = 0.01;
  const double deviation = column.std(/*unbiased=*/false).item<double>();
  return deviation > 0 && column.abs().max().item<double>() * kHalfStep > kMostOfDeviation * deviation;
}

bool has_more_than_32_bits(const at::Tensor& values) {
  return values.scalar_type() == at::kDouble || values.scalar_type() == at::kLong || values.scalar_type() == at::kInt;
}

void warn_of_lost_bits(const LabelledTable& table, const TableDataOptions& options) {
  const auto warn = [&](const std::string& what, const char* option) {
    rank_zero_warn(
        format("{}: {}: their differences are as small as the steps of 32-bit floats at that size, in which batches have "
               "them. {}: true takes their mean off in 64 bits before",
               table.file, what, option));
  };
  if (options.task == TableTask::kRegression && !options.standardize_labels && is_coarse_in_32_bits(table.labels))
    warn("its labels are large", "standardize_labels");
  if (options.standardize || !has_more_than_32_bits(table.features) || table.features.dim() != 2) return;
  const at::Tensor values = table.features.to(at::kDouble);
  for (std::int64_t column = 0; column < values.size(1); ++column) {
    if (table.texts.contains(column) || !is_coarse_in_32_bits(values.select(1, column))) continue;
    const auto place = static_cast<std::size_t>(column);
    warn(format("the values of feature {} are large",
                table.columns.empty() ? format("{}", column) : quoted_text(table.columns[place], 40)),
         "standardize");
    return;
  }
}

/// The format of a file by its first bytes, where its name does not say it.
std::string kind_in_message(const fs::path& path) {
  std::string begin(64, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::ssize(begin));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  const ContentKind kind = kind_of_content(begin);
  return kind.name.empty() || kind.name.starts_with("text") ? "" : format(". It is {}: {}", kind.name, kind.cure);
}

bool are_different_whole_numbers(const at::Tensor& column) {
  const at::Tensor values = std::get<0>(column.to(at::kDouble).sort());
  const std::int64_t rows = values.size(0);
  return values.floor().equal(values) && values.narrow(0, 1, rows - 1).gt(values.narrow(0, 0, rows - 1)).all().item<bool>();
}

/// "id", "PassengerId", "customer_id", "rownames"
bool is_name_of_row_numbers(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  for (const char* known : {"id", "index", "idx", "row", "rownames", "row_names", "rowid", "row_number", "unnamed: 0"})
    if (lower == known) return true;
  for (const char* end : {"_id", " id", ".id", "-id"})
    if (lower.ends_with(end)) return true;
  const std::size_t before = name.size() - 3;  // "aId", "aID"
  return name.size() > 2 && lower.ends_with("id") && name[before + 1] == 'I' &&
         std::islower(static_cast<unsigned char>(name[before])) != 0;
}

/// Columns of row numbers are features that identify rows, and say nothing of a new row.
void warn_of_row_numbers(const LabelledTable& table, bool has_first_column) {
  constexpr std::int64_t kFewest = 10;
  const std::int64_t rows = table.features.size(0);
  if (table.is_array || rows < kFewest) return;
  std::vector<std::string> names;
  for (std::int64_t column = 0; column < table.features.size(1); ++column) {
    const std::string name = table.columns.empty() ? "" : table.columns[static_cast<std::size_t>(column)];
    const bool has_name = is_name_of_row_numbers(name);
    const bool is_first = column == 0 && has_first_column && name.empty();
    if (table.texts.contains(column) || (!has_name && !is_first)) continue;
    const at::Tensor values = table.features.select(1, column);
    const at::Tensor from_0 = values - values[0];
    const bool counts = values[0].item<double>() <= 1 && from_0.equal(at::arange(rows, values.options()));
    if (has_name ? are_different_whole_numbers(values) : counts) names.push_back(name.empty() ? "0" : quoted_text(name, 40));
  }
  if (names.empty()) return;
  rank_zero_warn(format(
      "{}: {} another whole number in each row, as one that counts the rows or names them, and is taken for a feature: "
      "leave it out with ignore_columns: [{}] unless it is data",
      table.file, names.size() == 1 ? format("column {} has", names[0]) : format("columns {} have", join(names)), join(names)));
}

/// A feature that is the label under another name leaves nothing to learn.
void warn_of_leaks(const LabelledTable& table, TableTask task) {
  constexpr std::int64_t kFewest = 10;
  const std::int64_t rows = table.labels.numel();
  if (table.is_array || rows < kFewest || table.features.dim() != 2) return;
  const at::Tensor labels = table.labels.to(at::kDouble).contiguous();
  const std::span<const double> label(labels.const_data_ptr<double>(), static_cast<std::size_t>(rows));
  const auto determines_label = [&](const at::Tensor& column) {
    const at::Tensor values = column.to(at::kDouble).contiguous();
    std::map<double, double> label_of, value_of;
    for (std::size_t row = 0; row < label.size(); ++row) {
      const double value = values.const_data_ptr<double>()[row];
      if (task == TableTask::kRegression && value != label[row]) return false;
      if (label_of.emplace(value, label[row]).first->second != label[row]) return false;
      if (value_of.emplace(label[row], value).first->second != value) return false;
    }
    return label_of.size() > 1 && (task == TableTask::kRegression || 2 * std::ssize(label_of) <= rows);
  };
  std::vector<std::string> names;
  for (std::int64_t column = 0; column < table.features.size(1); ++column) {
    if (!determines_label(table.features.select(1, column))) continue;
    names.push_back(table.columns.empty() ? format("feature {}", column)
                                          : quoted_text(table.columns[static_cast<std::size_t>(column)], 40));
  }
  if (names.empty()) return;
  rank_zero_warn(
      format("{}: {} the label of every row: leave {} out with ignore_columns unless it is known where predictions are made",
             table.file, names.size() == 1 ? format("{} determines", names[0]) : format("{} determine", join(names)),
             names.size() == 1 ? "it" : "them"));
}

/// Labels most of which stand in one row are not classes.
void warn_of_rare_classes(const LabelledTable& table, TableTask task) {
  constexpr std::int64_t kFewest = 20;
  const std::int64_t rows = table.labels.numel();
  if (task != TableTask::kClassification || rows < kFewest) return;
  const auto* const first = table.labels.const_data_ptr<std::int64_t>();
  const std::set<std::int64_t> different(first, first + rows);
  if (2 * std::ssize(different) <= rows) return;
  rank_zero_warn(format("{}: its {} rows have {} different labels{}: set label_column to the column to predict{}", table.file,
                        rows, different.size(),
                        table.label_column.empty() ? "" : format(" in column {}", quoted_text(table.label_column, 40)),
                        table.classes.empty() ? ", or task: regression" : ""));
}

at::Tensor label_tensor(const LabelledTable& table, const at::Tensor& labels, TableTask task) {
  if (task == TableTask::kRegression) return labels.to(at::kDouble);
  const at::Tensor whole = labels.to(at::kLong);
  const at::Tensor wrong = labels.ne(whole).nonzero();
  if (wrong.numel() == 0) return whole;
  const std::int64_t row = wrong[0][0].item<std::int64_t>();
  throw ConfigError(format("{}: the label {} is not a whole number: choose another label_column, or task: regression",
                           table.place_of(row), labels.select(0, row).flatten()[0].item<double>()));
}

/// Labels that are whole numbers, by their ranks among those that occur.
void map_labels(LabelledTable& table) {
  std::vector<std::int64_t> numbers(table.labels.const_data_ptr<std::int64_t>(),
                                    table.labels.const_data_ptr<std::int64_t>() + table.labels.numel());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const std::int64_t number : numbers) table.classes.push_back(format("{}", number));
  auto* const labels = table.labels.mutable_data_ptr<std::int64_t>();
  std::transform(labels, labels + table.labels.numel(), labels,
                 [&](std::int64_t label) { return std::lower_bound(numbers.begin(), numbers.end(), label) - numbers.begin(); });
}

void take_labels(LabelledTable& table, const at::Tensor& labels, const TableDataOptions& options) {
  table.labels = label_tensor(table, labels.contiguous(), options.task);
  if (options.map_labels && table.classes.empty()) map_labels(table);
}

}  // namespace

at::Tensor scaled(const LabelledTable& table, const TableDataOptions& options) {
  const at::Tensor& read = table.features;
  const bool keeps_bits = has_more_than_32_bits(read) && (options.standardize || !table.texts.empty());
  const at::Tensor features = read.to(keeps_bits ? at::kDouble : at::kFloat);
  if (options.scale == 1.0) return features;
  if (table.texts.empty()) return features * options.scale;
  at::Tensor scale = at::ones({features.size(1)}, features.options());
  for (std::int64_t column = 0; column < features.size(1); ++column)
    if (!table.texts.contains(column)) scale[column] = options.scale;
  return features * scale;
}

std::string LabelledTable::place_of(std::int64_t row) const {
  CsvTable places;
  places.line_starts = line_starts;
  places.file_starts = file_starts;
  return place_in_file(file, places, row_as_read(rows, row));
}

LabelledTable rows_of(const LabelledTable& table, const std::vector<std::int64_t>& rows) {
  LabelledTable taken = table;
  const at::Tensor wanted = at::tensor(rows, at::kLong);
  taken.rows = table.rows.defined() ? table.rows.index_select(0, wanted) : wanted;
  taken.features = table.features.index_select(0, wanted);
  taken.labels = table.labels.index_select(0, wanted);
  return taken;
}

std::string shown_names(std::vector<std::string> names) {
  constexpr std::size_t kMostShown = 20;
  const std::size_t count = names.size();
  names.resize(std::min(count, kMostShown));
  return quoted_list(names) + (count > kMostShown ? format(" and {} more", count - kMostShown) : "");
}

bool are_distinct_names(const std::vector<std::string>& names) {
  const std::set<std::string> distinct(names.begin(), names.end());
  return !names.empty() && distinct.size() == names.size() && !distinct.contains("");
}

LabelledTable with_features(const LabelledTable& table, const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> place_of;
  for (const std::string& name : table.columns) place_of.emplace(name, std::ssize(place_of));
  LabelledTable taken = table;
  taken.columns = names;
  taken.texts.clear();
  std::vector<std::int64_t> places;
  for (const std::string& name : names) {
    const std::int64_t place = place_of.at(name);
    if (const auto texts = table.texts.find(place); texts != table.texts.end())
      taken.texts.emplace(std::ssize(places), texts->second);
    places.push_back(place);
  }
  taken.features = table.features.index_select(1, at::tensor(places, at::kLong));
  return taken;
}

/// What paths stand for, as one source: patterns, folders and several files.
TableReader::Source TableReader::source_of(const Paths& paths) {
  Source source;
  for (const fs::path& path : paths) {
    const std::vector<fs::path> files = files_of(path);
    source.files.insert(source.files.end(), files.begin(), files.end());
  }
  source.name = paths.front().string();
  if (paths.size() > 1) source.name += format(" and {} more", paths.size() - 1);
  return source;
}

/// The names of a table's columns, and which of a file of columns hold texts.
CsvTable TableReader::read_head(const fs::path& path, const Columns& columns) const {
  std::vector<std::string> texts = columns.one_hot;
  texts.insert(texts.end(), columns.coded.begin(), columns.coded.end());
  if (column_format_of(path) != nullptr) {
    ColumnTableOptions head{.text_columns = texts, .ignore_columns = columns.ignored, .only_head = true};
    if (!columns.label.empty()) head.complete_columns = {columns.label};
    return read_column_file(path, head);
  }
  CsvOptions head = csv_options(options_, path);
  head.most_rows = 0;
  head.text_columns = std::move(texts);
  head.text_columns.insert(head.text_columns.end(), columns.ignored.begin(), columns.ignored.end());
  if (options_.task == TableTask::kClassification) head.class_column = columns.label;
  return read_csv(path, head);
}

CsvTable TableReader::read_file(const fs::path& path, const Columns& columns) const {
  if (!is_table(path)) return read_array(path, columns);
  std::vector<std::string> texts = columns.one_hot;
  texts.insert(texts.end(), columns.coded.begin(), columns.coded.end());
  const std::string class_column = options_.task == TableTask::kClassification ? columns.label : "";
  std::vector<std::string> complete;
  if (!columns.label.empty()) complete = {columns.label};
  if (column_format_of(path) != nullptr) {
    return read_column_file(path, {.missing = standing_for(options_.missing),
                                   .missing_in = standing_in_columns(options_.missing),
                                   .complete_columns = std::move(complete),
                                   .class_column = class_column,
                                   .text_columns = std::move(texts),
                                   .ignore_columns = columns.ignored,
                                   .times_in_days = options_.time_unit == TableTimeUnit::kDays});
  }
  CsvOptions csv = csv_options(options_, path);
  csv.class_column = class_column;
  csv.complete_columns = std::move(complete);
  csv.text_columns = std::move(texts);
  csv.ignore_columns = columns.ignored;
  return read_csv(path, csv);
}

CsvTable TableReader::read_array(const fs::path& path, const Columns& columns) const {
  const std::string file = path.string();
  CsvTable table;
  if (ends_with(path, ".npy")) {
    table.values = path.extension() == ".gz" ? read_npy(path, options_.max_expansion) : map_npy(path);
  } else if (ends_with(path, "ubyte") || ends_with(path, ".idx")) {
    table.values = read_idx(path, options_.max_expansion);
  } else {
    throw ConfigError(format(
        "{}: the name does not say what the file holds; it ends in .csv, .tsv, .txt, .npy, .idx or ubyte (and .gz), or {}{}",
        path, join(column_file_endings()), kind_in_message(path)));
  }
  if (!columns.one_hot.empty() || !columns.coded.empty())
    throw ConfigError(format("{}: one_hot_columns and code_columns are columns of tables", file));
  if (!columns.ignored.empty() && table.values.numel() > 0) {
    if (table.values.dim() != 2) throw ConfigError(format("ignore_columns: {} has no columns", file));
    table.width_of_file = table.values.size(1);
    std::set<std::int64_t> ignored;
    for (const std::string& wanted : columns.ignored) ignored.insert(find_in_file("ignore_columns", table, wanted, file));
    for (std::int64_t column = 0; column < table.width_of_file; ++column)
      if (!ignored.contains(column)) table.places.push_back(column);
    table.values = table.values.index_select(1, at::tensor(table.places, at::kLong));
  }
  if (table.values.dim() == 2 && table.width_of_file == 0) table.width_of_file = table.values.size(1);
  if (options_.missing.number && table.values.is_floating_point()) {
    table.values =
        at::where(at::isnan(table.values), at::scalar_tensor(*options_.missing.number, table.values.options()), table.values);
  }
  return table;
}

CsvTable TableReader::read_files(const Source& source, const Columns& columns) const {
  std::vector<CsvTable> tables;
  std::vector<std::string> names;
  for (const fs::path& file : source.files) {
    tables.push_back(read_file(file, columns));
    names.push_back(file.string());
  }
  CsvTable table = concatenated(std::move(tables), names);
  for (const std::string& note : table.notes) rank_zero_info(note);
  if (table.values.dim() >= 1 && options_.missing.drops_rows()) drop_rows(table);
  if (table.values.dim() < 1 || table.values.size(0) == 0 || (table.values.numel() == 0 && table.width_of_file == 0))
    throw ConfigError(format("{}: there is no data in it", source.name));
  check_values(table, source.name);
  return table;
}

/// Leaves out rows with missing values, where the options say so.
void TableReader::drop_rows(CsvTable& table) const {
  const std::int64_t rows = table.values.size(0);
  if (!table.values.is_floating_point() || rows == 0) return;
  at::Tensor is_missing = at::zeros({rows}, at::kBool);
  if (table.values.dim() != 2) {
    if (options_.missing.drop) is_missing = at::isnan(table.values.flatten(1)).any(1);
  } else {
    for (std::int64_t column = 0; column < table.values.size(1); ++column) {
      const auto place = static_cast<std::size_t>(column);
      const std::string name = table.columns.empty() ? "" : table.columns[place];
      const std::int64_t in_file = table.places.empty() ? column : table.places[place];
      if (!options_.missing.of(name, in_file).drop) continue;
      is_missing.logical_or_(at::isnan(table.values.select(1, column)));
    }
  }
  const auto dropped = static_cast<std::size_t>(is_missing.sum().item<std::int64_t>());
  if (dropped == 0) return;
  table.rows = is_missing.logical_not().nonzero().squeeze(1);
  table.values = table.values.index_select(0, table.rows);
  rank_zero_info(format("missing: drop: {} of {} left out", counted(dropped, "row"), rows));
}

/// Columns of texts in a file of columns are categories without being named.
void TableReader::name_texts(Columns& columns, const fs::path& path) const {
  if (column_format_of(path) == nullptr) return;
  const CsvTable head = read_head(path, columns);
  const auto find = [&](const char* option, const std::string& name) {
    return find_in_file(option, head, name, path.string());
  };
  std::set<std::int64_t> named;
  for (const std::string& name : columns.one_hot) named.insert(find("one_hot_columns", name));
  for (const std::string& name : columns.coded) named.insert(find("code_columns", name));
  if (!columns.label.empty()) named.insert(find("label_column", columns.label));
  for (const auto& [place, texts] : head.texts) {
    const std::int64_t column = head.places.empty() ? place : head.places[static_cast<std::size_t>(place)];
    if (named.contains(column)) continue;
    const std::string& name = head.columns_of_file[static_cast<std::size_t>(column)];
    const bool is_unique = !name.empty() && std::ranges::count(head.columns_of_file, name) == 1;
    columns.one_hot.push_back(is_unique ? name : format("{}", column));
  }
}

/// Divides what was read into features and labels.
LabelledTable TableReader::take(CsvTable table, const Source& source, const Columns& columns) const {
  LabelledTable taken{.file = source.name,
                      .line_starts = table.line_starts,
                      .file_starts = table.file_starts,
                      .rows = table.rows,
                      .is_array = !is_table(source.files.front())};
  std::optional<std::int64_t> label;
  if (!columns.label.empty()) {
    const bool is_text = is_csv(source.files.front());
    if (table.values.dim() != 2 || table.width_of_file < 2) {
      throw ConfigError(
          format("{} is not a table with a column of labels besides the features: {}give label_path", source.name,
                 is_text ? format("with the delimiter '{}' its lines are one field each; set `delimiter` to what divides them "
                                  "(';', '|', a tab, a blank), or ",
                                  options_.delimiter)
                         : ""));
    }
    const std::int64_t in_file = find_in_file("label_column", table, columns.label, taken.file);
    label = place_among_values(table, in_file);
    if (!label) {
      throw ConfigError(
          format("label_column: column {} of {} is left out, as one of ignore_columns or as an index without a name: "
                 "give the label's name or number",
                 in_file, taken.file));
    }
  }
  const auto feature_of = [&](std::int64_t place) { return label && place > *label ? place - 1 : place; };
  for (auto& [place, texts] : table.texts) {
    const std::int64_t in_file = table.places.empty() ? place : table.places[static_cast<std::size_t>(place)];
    const auto is_in = [&](const std::vector<std::string>& names) {
      return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return find_column(table.columns_of_file, table.width_of_file, name) == in_file;
      });
    };
    taken.texts[feature_of(place)] = {
        .column = table.columns.empty() ? format("{}", in_file) : table.columns[static_cast<std::size_t>(place)],
        .texts = std::move(texts),
        .is_one_hot = is_in(columns.one_hot)};
  }
  taken.columns = table.columns;
  if (label && !table.columns.empty()) taken.label_column = table.columns[static_cast<std::size_t>(*label)];
  taken.features = label ? without_column(table.values, *label) : table.values;
  if (label && !taken.columns.empty()) taken.columns.erase(taken.columns.begin() + *label);
  if (taken.features.numel() == 0) throw ConfigError(format("{}: no column is left for features", taken.file));
  taken.classes = std::move(table.classes);
  if (label) take_labels(taken, table.values.select(1, *label), options_);
  return taken;
}

void TableReader::take_label_file(LabelledTable& table, const fs::path& path) const {
  const Source source = source_of(path);
  CsvTable read = read_files(source, {.label = "0"});
  const at::Tensor column = read.values.dim() == 2 && read.values.size(1) == 1 ? read.values.squeeze(1) : read.values;
  const std::int64_t samples = table.features.size(0);
  if (column.size(0) != samples) {
    const bool has_one_more = column.size(0) == samples + 1 && is_csv(path) && read.columns.empty();
    throw ConfigError(format("{} does not have one label for each of the {} samples of {}{}", path, samples, table.file,
                             has_one_more ? ", but one more: set `header` to true if its first line is a name" : ""));
  }
  LabelledTable labels{.file = source.name,
                       .classes = std::move(read.classes),
                       .line_starts = std::move(read.line_starts),
                       .file_starts = std::move(read.file_starts)};
  take_labels(labels, column, options_);
  table.labels = labels.labels;
  table.classes = std::move(labels.classes);
}

void TableReader::remember_columns(const CsvTable& table, const Columns& columns, const std::string& file) {
  file_ = file;
  names_ = table.columns_of_file;
  width_ = table.width_of_file;
  std::map<std::int64_t, const char*> options;
  const auto remember = [&](const char* option, const std::string& wanted) {
    const std::int64_t column = find_in_file(option, table, wanted, file);
    const auto [other, is_new] = options.emplace(column, option);
    if (!is_new)
      throw ConfigError(format("{}: column {} of {} is in {} too", option, quoted_text(wanted), file, other->second));
    return column;
  };
  for (const std::string& name : columns.ignored) ignored_.insert(remember("ignore_columns", name));
  for (const std::string& name : columns.one_hot) one_hot_.insert(remember("one_hot_columns", name));
  for (const std::string& name : columns.coded) coded_.insert(remember("code_columns", name));
  if (!columns.label.empty()) label_ = remember("label_column", columns.label);
}

LabelledTable TableReader::read_training() {
  const Source source = source_of(options_.path);
  Columns columns{.ignored = options_.ignore_columns,
                  .one_hot = options_.one_hot_columns,
                  .coded = options_.code_columns,
                  .label = options_.label_path ? "" : options_.label_column};
  name_texts(columns, source.files.front());
  CsvTable read = read_files(source, columns);
  if (read.width_of_file > 0) remember_columns(read, read.width_of_file < 2 ? Columns() : columns, source.name);
  LabelledTable table = take(std::move(read), source, columns);
  if (options_.label_path) take_label_file(table, *options_.label_path);
  warn_of_lost_bits(table, options_);
  if (table.features.dim() == 2) warn_of_row_numbers(table, !ignored_.contains(0) && label_ != 0);
  warn_of_leaks(table, options_.task);
  warn_of_rare_classes(table, options_.task);
  features_ = table.columns;
  shape_ = table.features.sizes().slice(1).vec();
  table.features = scaled(table, options_);
  return table;
}

/// The training data's columns, as another file has them: by name where both have names, else by number.
TableReader::Columns TableReader::columns_of(const char* option, const fs::path& path, bool is_predicted) const {
  const auto numbers = [](const std::set<std::int64_t>& columns) {
    std::vector<std::string> texts;
    for (const std::int64_t column : columns) texts.push_back(format("{}", column));
    return texts;
  };
  Columns columns{.ignored = numbers(ignored_), .one_hot = numbers(one_hot_), .coded = numbers(coded_)};
  if (label_) columns.label = format("{}", *label_);
  if (!is_table(path)) return columns;

  // A file without names is read by numbers, one with names by these.
  Columns in_head = columns;
  for (const auto& [numbers_of_columns, names] :
       {std::pair(&one_hot_, &in_head.one_hot), std::pair(&coded_, &in_head.coded), std::pair(&ignored_, &in_head.ignored)})
    for (const std::int64_t column : *numbers_of_columns) names->push_back(name_of(column));
  const CsvTable first = read_head(path, in_head);
  const std::vector<std::string>& names = first.columns_of_file;
  if (!names.empty() && are_distinct_names(features_)) return columns_by_name(option, path, first, is_predicted);
  // Without names, only the same number of columns as the training data's says that the label is one.
  const bool lacks_label = is_predicted && label_ && (names.empty() || names_.empty()) && first.width_of_file != width_;
  const auto in_file = [&](std::int64_t column) {
    const std::string name = name_of(column);
    const bool has_name = !name.empty() && std::find(names.begin(), names.end(), name) != names.end();
    if (has_name) return name;
    // In a file of another width only names say it.
    if (!names.empty() && !names_.empty() && first.width_of_file != width_) return name;
    return format("{}", lacks_label && column > *label_ ? column - 1 : column);
  };
  const auto translated = [&](const std::set<std::int64_t>& numbers_of_training) {
    std::vector<std::string> texts;
    for (const std::int64_t column : numbers_of_training) texts.push_back(in_file(column));
    return texts;
  };
  columns = {.ignored = translated(ignored_), .one_hot = translated(one_hot_), .coded = translated(coded_)};
  if (label_ && !lacks_label) columns.label = in_file(*label_);
  return columns;
}

/// The name of one of the training data's columns that no other has; else "".
std::string TableReader::name_of(std::int64_t column) const {
  if (names_.empty()) return "";
  const std::string& name = names_[static_cast<std::size_t>(column)];
  return std::count(names_.begin(), names_.end(), name) == 1 ? name : "";
}

/// Of a file with names, whose columns may be others, and in another order.
TableReader::Columns TableReader::columns_by_name(const char* option, const fs::path& path, const CsvTable& head,
                                                  bool is_predicted) const {
  const std::string file = path.string();
  const std::vector<std::string>& names = head.columns_of_file;
  std::map<std::string, std::vector<std::int64_t>> places;
  for (std::int64_t place = 0; place < head.width_of_file; ++place)
    places[names[static_cast<std::size_t>(place)]].push_back(place);
  const auto reference_to = [&](std::int64_t place) {
    const std::string& name = names[static_cast<std::size_t>(place)];
    return name.empty() || places.at(name).size() > 1 ? format("{}", place) : name;
  };
  std::set<std::int64_t> used;
  std::vector<std::string> missing;
  for (const std::string& name : features_) {
    const auto found = places.find(name);
    if (found == places.end()) {
      missing.push_back(name);
    } else {
      used.insert(find_in_file(option, head, name, file));
    }
  }
  if (!missing.empty()) {
    throw ConfigError(format("{}: {} lacks {} of the training data, {}: {}; it has {}", option, file,
                             counted(missing.size(), "column"), file_, shown_names(missing), known_columns(head)));
  }
  Columns columns;
  for (const std::int64_t column : one_hot_) columns.one_hot.push_back(name_of(column));
  for (const std::int64_t column : coded_) columns.coded.push_back(name_of(column));
  if (label_) {
    const std::string name = name_of(*label_);
    const bool has_name = !name.empty() && places.contains(name);
    const bool is_at_its_place = head.width_of_file == width_ && !used.contains(*label_);
    if (has_name) {
      columns.label = name;
    } else if (is_at_its_place) {
      columns.label = reference_to(*label_);
    } else if (!is_predicted) {
      columns.label = name.empty() ? format("{}", *label_) : name;
    }
  }
  const auto label = find_column(names, head.width_of_file, columns.label);
  const std::set<std::string> known(names_.begin(), names_.end());
  std::vector<std::string> others;
  for (std::int64_t place = 0; place < head.width_of_file; ++place) {
    if (used.contains(place) || place == label) continue;
    columns.ignored.push_back(reference_to(place));
    const std::string& name = names[static_cast<std::size_t>(place)];
    if (!name.empty() && !known.contains(name)) others.push_back(name);
  }
  if (!others.empty())
    rank_zero_info(format("{}: left out, since the training data lacks them: {}", file, shown_names(others)));
  return columns;
}

void TableReader::check_same_features(const char* option, const LabelledTable& table) const {
  if (table.features.sizes().slice(1) != at::IntArrayRef(shape_)) {
    std::int64_t expected = 1;
    for (const std::int64_t size : shape_) expected *= size;
    throw ConfigError(format("{}: a row of {} has {} features, one of {} has {}", option, table.file, table.features[0].numel(),
                             file_, expected));
  }
  for (std::size_t column = 0; column < std::min(table.columns.size(), features_.size()); ++column) {
    if (table.columns[column] == features_[column]) continue;
    throw ConfigError(format("{}: feature {} of {} is called {}, that of {} {}", option, column, table.file,
                             quoted_text(table.columns[column], 40), file_, quoted_text(features_[column], 40)));
  }
}

/// With the features of the training data, in its order.
LabelledTable TableReader::fit_to_training(const char* option, LabelledTable table) const {
  const bool is_by_name = !table.columns.empty() && are_distinct_names(features_);
  if (is_by_name && table.columns != features_) table = with_features(table, features_);
  check_same_features(option, table);
  table.features = scaled(table, options_);
  return table;
}

LabelledTable TableReader::read(const char* option, const fs::path& path, const std::optional<fs::path>& label_path) const {
  const Source source = source_of(path);
  Columns columns = columns_of(option, source.files.front(), /*is_predicted=*/false);
  LabelledTable table = take(read_files(source, columns), source, columns);
  if (label_path) take_label_file(table, *label_path);
  return fit_to_training(option, std::move(table));
}

LabelledTable TableReader::read_to_predict(const fs::path& path) const {
  const Source source = source_of(path);
  const bool is_array = !is_table(source.files.front());
  Columns columns = columns_of("predict_path", source.files.front(), /*is_predicted=*/true);
  if (!columns.label.empty()) columns.ignored.push_back(std::exchange(columns.label, ""));
  if (is_array) columns.ignored.clear();
  CsvTable read = read_files(source, columns);
  if (read.rows.defined()) {
    throw ConfigError(
        format("predict_path: {} has rows with missing values, and a prediction is made of each row: give `missing` a number "
               "for them, or leave them out of the file",
               source.name));
  }
  // Only the width of an array says whether it has labels.
  if (is_array && read.values.dim() == 2 && (label_ || !ignored_.empty())) {
    std::set<std::int64_t> left_out = ignored_;
    if (label_ && read.values.size(1) == width_) left_out.insert(*label_);
    std::vector<std::int64_t> remaining;
    for (std::int64_t column = 0; column < read.values.size(1); ++column) {
      const std::int64_t in_training = label_ && read.values.size(1) < width_ && column >= *label_ ? column + 1 : column;
      if (!left_out.contains(in_training)) remaining.push_back(column);
    }
    read.values = read.values.index_select(1, at::tensor(remaining, at::kLong));
  }
  return fit_to_training("predict_path", take(std::move(read), source, columns));
}

}  // namespace levin::detail
