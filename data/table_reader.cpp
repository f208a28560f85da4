#include "levin/data/table_reader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/column_file.h"
#include "levin/core/files/paths.h"
#include "levin/data/array_files.h"
#include "levin/data/column_table.h"
#include "levin/data/csv_text.h"
#include "levin/data/input_file.h"
#include "levin/data/table_warnings.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

bool ends_with(const fs::path& path, std::string_view extension) {
  return lowercase(without_compression_ending(without_query(path)).filename().string()).ends_with(extension);
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

/// Where a column of the file is among the values; unset when it was left out.
std::optional<std::int64_t> place_among_values(const CsvTable& table, std::int64_t column) {
  if (table.places.empty()) return column;
  const auto found = std::find(table.places.begin(), table.places.end(), column);
  return found == table.places.end() ? std::nullopt : std::optional<std::int64_t>(found - table.places.begin());
}

at::Tensor without_column(const at::Tensor& values, std::int64_t column) {
  return at::cat({values.narrow(1, 0, column), values.narrow(1, column + 1, values.size(1) - column - 1)}, 1);
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

}  // namespace

void tell_left_out(std::int64_t left_out, std::int64_t rows) {
  rank_zero_info(format("missing: drop: {} of {} left out", counted(static_cast<std::size_t>(left_out), "row"), rows));
}

void refuse_incomplete_rows(const std::string& file) {
  throw ConfigError(
      format("predict_path: {} has rows with missing values, and a prediction is made of each row: give `missing` a number "
             "for them, or leave them out of the file",
             file));
}

double max_bytes(const TableDataOptions& options) {
  return options.max_memory_mb ? *options.max_memory_mb * 1e6 : std::numeric_limits<double>::infinity();
}

/// What paths stand for, as one source: patterns, folders and several files.
TableReader::Source TableReader::source_of(const Paths& paths) {
  Source source;
  for (const fs::path& path : paths) {
    const std::vector<fs::path> files = files_of(path);
    const std::vector<FolderValues> folders = values_of_folders(path, files);
    source.files.insert(source.files.end(), files.begin(), files.end());
    source.folders.insert(source.folders.end(), folders.begin(), folders.end());
  }
  source.name = paths.front().string();
  if (paths.size() > 1) source.name += format(" and {} more", paths.size() - 1);
  return source;
}

/// The names of a table's columns, and which of a file of columns hold texts.
CsvTable TableReader::read_head(const fs::path& path, const TableColumns& columns) const {
  std::vector<std::string> texts = columns.one_hot;
  texts.insert(texts.end(), columns.coded.begin(), columns.coded.end());
  if (column_format_of(path) != nullptr) {
    ColumnTableOptions head{
        .text_columns = texts, .ignore_columns = columns.ignored, .folder_columns = folder_columns_, .only_head = true};
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

ColumnTableOptions TableReader::column_options(const TableColumns& columns) const {
  ColumnTableOptions options{.missing = standing_for(options_.missing),
                             .missing_in = standing_in_columns(options_.missing),
                             .class_column = options_.task == TableTask::kClassification ? columns.label : "",
                             .text_columns = columns.one_hot,
                             .ignore_columns = columns.ignored,
                             .times_in_days = options_.time_unit == TableTimeUnit::kDays,
                             .folder_columns = folder_columns_};
  options.text_columns.insert(options.text_columns.end(), columns.coded.begin(), columns.coded.end());
  if (!columns.label.empty()) options.complete_columns = {columns.label};
  return options;
}

CsvTable TableReader::read_file(const fs::path& path, const TableColumns& columns) const {
  if (!is_table(path)) return read_array(path, columns);
  ColumnTableOptions of_columns = column_options(columns);
  if (column_format_of(path) != nullptr) return read_column_file(path, of_columns);
  CsvOptions csv = csv_options(options_, path);
  csv.class_column = of_columns.class_column;
  csv.complete_columns = std::move(of_columns.complete_columns);
  csv.text_columns = std::move(of_columns.text_columns);
  csv.ignore_columns = columns.ignored;
  return read_csv(path, csv);
}

CsvTable TableReader::read_array(const fs::path& path, const TableColumns& columns) const {
  const std::string file = path.string();
  CsvTable table;
  if (ends_with(path, ".npy")) {
    table.values = without_compression_ending(path) == path ? map_npy(path) : read_npy(path, options_.max_expansion);
  } else if (ends_with(path, "ubyte") || ends_with(path, ".idx")) {
    table.values = read_idx(path, options_.max_expansion);
  } else {
    throw ConfigError(
        format("{}: the name does not say what the file holds; it ends in .csv, .tsv, .txt, .npy, .idx or ubyte (and .gz, "
               ".zst), or {}{}",
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

CsvTable TableReader::read_files(const Source& source, const TableColumns& columns) const {
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
  WrongValues wrong;
  wrong.add(table, source.name);
  wrong.report(source.name);
  return table;
}

/// The rows without a missing value for which the options leave them out.
at::Tensor TableReader::complete_rows(const CsvTable& table) const {
  const std::int64_t rows = table.values.size(0);
  if (!table.values.is_floating_point() || rows == 0) return at::arange(rows, at::kLong);
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
  return is_missing.logical_not().nonzero().squeeze(1);
}

void TableReader::drop_rows(CsvTable& table) const {
  const std::int64_t rows = table.values.size(0);
  const at::Tensor complete = complete_rows(table);
  if (complete.numel() == rows) return;
  tell_left_out(rows - complete.numel(), rows);
  table = selected(std::move(table), complete);
}

/// Columns of texts in a file of columns are categories without being named.
void TableReader::name_texts(TableColumns& columns, const fs::path& path) const {
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
LabelledTable TableReader::take(CsvTable table, const Source& source, const TableColumns& columns) const {
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

TableColumns TableReader::training_columns(const Source& source) const {
  TableColumns columns{.ignored = options_.ignore_columns,
                       .one_hot = options_.one_hot_columns,
                       .coded = options_.code_columns,
                       .label = options_.label_path ? "" : options_.label_column};
  name_texts(columns, source.files.front());
  if (!options_.missing.columns.empty() && is_table(source.files.front()))
    check_missing(read_head(source.files.front(), columns), source);
  return columns;
}

/// A name that no column has would be passed over, and what it stands for with it.
void TableReader::check_missing(const CsvTable& head, const Source& source) const {
  if (head.width_of_file == 0) return;
  for (const auto& [wanted, rule] : options_.missing.columns) {
    const auto is_meant = [&wanted = wanted](const std::string& name) {
      return name == wanted || name.starts_with(format("{}[", wanted));
    };
    if (std::ranges::none_of(head.columns_of_file, is_meant)) find_in_file("missing", head, wanted, source.name);
  }
}

LabelledTable TableReader::read_training() {
  const Source source = source_of(options_.path);
  folder_columns_ = folder_columns_of(source.folders, source.files);
  const TableColumns columns = training_columns(source);
  CsvTable read = read_files(source, columns);
  if (!is_table(source.files.front())) check_missing(read, source);
  if (read.width_of_file > 0) training_.remember(read, read.width_of_file < 2 ? TableColumns() : columns, source.name);
  LabelledTable table = take(std::move(read), source, columns);
  if (options_.label_path) take_label_file(table, *options_.label_path);
  warn_of_likely_mistakes(table);
  training_.remember_features(table);
  table.features = scaled(table, options_);
  return table;
}

void TableReader::warn_of_likely_mistakes(const LabelledTable& table) const {
  warn_of_lost_bits(table, options_);
  if (table.features.dim() == 2) warn_of_row_numbers(table, training_.begins_with_feature());
  warn_of_leaks(table, options_.task);
  warn_of_rare_classes(table, options_.task);
}

std::shared_ptr<const StreamedTable> TableReader::stream_training() {
  const Source source = source_of(options_.path);
  check_fits("path", source);
  if (column_format_of(source.files.front()) == nullptr) return nullptr;
  folder_columns_ = folder_columns_of(source.folders, source.files);
  const TableColumns columns = training_columns(source);
  const std::shared_ptr<StreamedTable> stream = stream_of("path", source, columns);
  if (!stream) return nullptr;
  if (options_.label_path) {
    throw ConfigError(
        format("label_path: {} is read as a stream, since it needs more memory than max_memory_mb: its labels "
               "have to be a column",
               source.name));
  }
  const CsvTable& head = stream->head();
  training_.remember(head, head.width_of_file < 2 ? TableColumns() : columns, source.name);
  for (std::size_t group = 0; group < stream->groups().size(); ++group) {
    const CsvTable rows = stream->read(group);
    const at::Tensor complete = complete_rows(rows);
    if (complete.numel() == 0) continue;
    // Of all rows they would need all of them in memory.
    LabelledTable first = take(selected(rows, complete), source, columns);
    first.file = format("the first {} rows of {}", complete.numel(), source.name);
    warn_of_likely_mistakes(first);
    training_.remember_features(first);
    break;
  }
  handle_rows(*stream, "path", source, columns);
  return stream;
}

std::shared_ptr<const StreamedTable> TableReader::stream(const char* option, const fs::path& path, bool is_predicted) const {
  const Source source = source_of(path);
  check_fits(option, source);
  if (column_format_of(source.files.front()) == nullptr) return nullptr;
  TableColumns columns = columns_of(option, source.files.front(), is_predicted);
  if (is_predicted && !columns.label.empty()) columns.ignored.push_back(std::exchange(columns.label, ""));
  const std::shared_ptr<StreamedTable> stream = stream_of(option, source, columns);
  if (stream) handle_rows(*stream, option, source, columns);
  return stream;
}

/// What cannot be read by groups of rows needs memory for all of it, which is about as much as it takes on disk.
void TableReader::check_fits(const char* option, const Source& source) const {
  double bytes = 0;
  for (const fs::path& file : source.files) {
    std::error_code none;
    if (const std::uintmax_t size = fs::file_size(file, none); !none && column_format_of(file) == nullptr)
      bytes += static_cast<double>(size);
  }
  if (bytes <= max_bytes(options_)) return;
  const fs::path& file = source.files.front();
  throw ConfigError(
      format("{}: {} has {:.3g} MB, and max_memory_mb is {}: {}", option, source.name, bytes / 1e6, *options_.max_memory_mb,
             is_csv(file) ? format("only Parquet files are read as a stream. Convert it: python -c \"import pyarrow.dataset as "
                                   "d; d.write_dataset(d.dataset('{}', format='csv'), '{}', format='parquet')\"",
                                   file.string(), (file.parent_path() / file.stem()).string())
                          : "ArrayDataModule reads rows of such files from the disk"));
}

/// The same rows as a stream; null where they fit into memory.
std::shared_ptr<StreamedTable> TableReader::stream_of(const char* option, const Source& source,
                                                      const TableColumns& columns) const {
  if (!options_.max_memory_mb) return nullptr;
  std::vector<ColumnTable> files;
  for (const fs::path& file : source.files) files.emplace_back(file, column_options(columns));
  auto stream = std::make_shared<StreamedTable>(source.name, std::move(files));
  if (stream->bytes() <= max_bytes(options_)) return nullptr;
  for (const ColumnTable& file : stream->files()) {
    for (const std::string& note : file.head().notes) rank_zero_info(note);
    if (file.reads_groups_alone()) continue;
    throw ConfigError(
        format("{}: {} needs {:.3g} MB in memory, and max_memory_mb is {}: only Parquet files are read as a "
               "stream. Write it as one, as with the to_parquet() of pandas",
               option, source.name, stream->bytes() / 1e6, *options_.max_memory_mb));
  }
  rank_zero_info(format("{}: {} rows in {} are read as a stream: in memory they would need {:.3g} MB", source.name,
                        stream->rows(), counted(stream->groups().size(), "group"), stream->bytes() / 1e6));
  if (const double largest = stream->bytes_of_largest_group(); largest > max_bytes(options_)) {
    rank_zero_warn(format(
        "{}: its largest group of rows needs {:.3g} MB in memory, more than max_memory_mb, which is {}, since a group is "
        "read as a whole: write smaller ones, by the row_group_size of pandas and pyarrow",
        source.name, largest / 1e6, *options_.max_memory_mb));
  }
  return stream;
}

/// Rows are handled as those of a table in memory, by a reader of the stream's own.
void TableReader::handle_rows(StreamedTable& stream, const char* option, const Source& source,
                              const TableColumns& columns) const {
  const auto reader = std::make_shared<const TableReader>(*this);
  stream.set_handling(
      {.take = [reader, option, source, columns](
                   CsvTable rows) { return reader->fit_to_training(option, reader->take(std::move(rows), source, columns)); },
       .complete_rows = [reader](const CsvTable& rows) { return reader->complete_rows(rows); }});
}

/// The training data's columns, as another file has them.
TableColumns TableReader::columns_of(const char* option, const fs::path& path, bool is_predicted) const {
  if (!is_table(path)) return training_.by_number();
  return training_.in_file(option, path.string(), read_head(path, training_.by_number_and_name()), is_predicted);
}

/// With the features of the training data, in its order.
LabelledTable TableReader::fit_to_training(const char* option, LabelledTable table) const {
  table = training_.in_order(option, std::move(table));
  table.features = scaled(table, options_);
  return table;
}

LabelledTable TableReader::read(const char* option, const fs::path& path, const std::optional<fs::path>& label_path) const {
  const Source source = source_of(path);
  TableColumns columns = columns_of(option, source.files.front(), /*is_predicted=*/false);
  LabelledTable table = take(read_files(source, columns), source, columns);
  if (label_path) take_label_file(table, *label_path);
  return fit_to_training(option, std::move(table));
}

LabelledTable TableReader::read_to_predict(const fs::path& path) const {
  const Source source = source_of(path);
  const bool is_array = !is_table(source.files.front());
  TableColumns columns = columns_of("predict_path", source.files.front(), /*is_predicted=*/true);
  if (!columns.label.empty()) columns.ignored.push_back(std::exchange(columns.label, ""));
  if (is_array) columns.ignored.clear();
  CsvTable read = read_files(source, columns);
  if (read.rows.defined()) refuse_incomplete_rows(source.name);
  if (is_array && read.values.dim() == 2 && training_.has_others())
    read.values = read.values.index_select(1, at::tensor(training_.features_in_array(read.values.size(1)), at::kLong));
  return fit_to_training("predict_path", take(std::move(read), source, columns));
}

}  // namespace levin::detail
