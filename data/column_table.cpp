#include "levin/data/column_table.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/machine_memory.h"
#include "levin/core/base/text.h"
#include "levin/core/files/column_file.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/column_layout.h"
#include "levin/data/text_codes.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

/// The rows of some groups of a file.
class RowsReader {
 public:
  RowsReader(ColumnFile& file, const ColumnLayout& layout) : file_(file), layout_(layout) {}

  CsvTable read(std::int64_t first_group, std::int64_t end_group) {
    table_ = layout_.head;
    table_.texts.clear();
    const std::vector<std::int64_t>& rows_of = layout_.rows_of_groups;
    first_row_ = std::accumulate(rows_of.begin(), rows_of.begin() + first_group, std::int64_t{0});
    const std::int64_t rows = std::accumulate(rows_of.begin() + first_group, rows_of.begin() + end_group, std::int64_t{0});
    const auto width = std::ssize(table_.columns);
    check_memory(rows, width);
    try {
      // Column by column in memory, as they are read.
      table_.values = at::empty({width, rows}, at::kDouble).t();
    } catch (const std::exception&) {
      throw_too_large(rows, width);
    }
    std::vector<TextCodes> texts(layout_.parts.size());
    std::int64_t first = 0;
    for (std::int64_t group = first_group; group < end_group; ++group) {
      is_last_group_ = group + 1 == std::ssize(rows_of);
      for (std::size_t part = 0; part < layout_.parts.size(); ++part)
        if (layout_.parts[part].has_taken()) take(layout_.parts[part], group, first, texts[part]);
      first += rows_of[static_cast<std::size_t>(group)];
    }
    sort_texts(texts);
    return std::move(table_);
  }

 private:
  void sort_texts(const std::vector<TextCodes>& texts) {
    for (std::size_t number = 0; number < texts.size(); ++number) {
      if (texts[number].empty()) continue;
      const ColumnPart& part = layout_.parts[number];
      std::vector<std::string> sorted = texts[number].sort(part.is_text, '.', table_.values.select(1, part.place));
      if (part.is_class) {
        table_.classes = std::move(sorted);
        table_.class_place = part.place;
      } else {
        table_.texts[part.place] = std::move(sorted);
      }
    }
  }

  /// Before memory is taken, which the system would promise.
  void check_memory(std::int64_t rows, std::int64_t width) const {
    std::ifstream meminfo("/proc/meminfo");
    const std::map<std::string, double> memory = machine_memory(meminfo);
    const auto available = memory.find("MemAvailable");
    const double needed = static_cast<double>(rows) * static_cast<double>(width) * sizeof(double);
    if (available != memory.end() && needed > available->second) throw_too_large(rows, width);
  }
  [[noreturn]] void throw_too_large(std::int64_t rows, std::int64_t width) const {
    throw IoError(format("{}: there is not enough memory for its {} rows of {} numbers, each of which takes 8 bytes",
                         layout_.file, rows, width));
  }

  /// The rows of one group.
  void take(const ColumnPart& part, std::int64_t group, std::int64_t first, TextCodes& texts) {
    const bool as_text = part.is_text || (part.is_class && part.info.kind == ColumnKind::kText);
    ColumnData data = file_.read(group, part.column, {.as_text = as_text, .times_in_days = layout_.times_in_days});
    const std::int64_t rows = layout_.rows_of_groups[static_cast<std::size_t>(group)];
    if (as_text) {
      std::vector<double> number_of;
      for (const std::string& text : data.texts) number_of.push_back(texts.number_of(text));
      for (double& number : data.numbers)
        if (!std::isnan(number)) number = number_of[static_cast<std::size_t>(number)];
    }
    check_shape(part, data, rows);
    replace_missing(part, data, first, texts, as_text);
    std::int64_t place = part.place;
    for (std::int64_t offset = 0; offset < part.width; ++offset) {
      if (!part.is_taken[static_cast<std::size_t>(offset)]) continue;
      auto* to = table_.values.mutable_data_ptr<double>() + place++ * table_.values.size(0) + first;
      for (std::int64_t row = 0; row < rows; ++row) to[row] = data.numbers[static_cast<std::size_t>(row * part.width + offset)];
    }
  }

  /// Lists of a group, all of which are as long as those before. Where all are missing, nothing says how long they are.
  void check_shape(const ColumnPart& part, ColumnData& data, std::int64_t rows) const {
    if (!data.shape) {
      data.numbers.assign(static_cast<std::size_t>(rows * part.width), std::nan(""));
      for (std::int64_t place = 0; place < rows * part.width; ++place) data.missing.push_back(place);
    }
    if (std::ssize(data.numbers) == rows * part.width) return;
    throw ConfigError(format("{}: column {} has lists of different lengths: leave it out with ignore_columns", layout_.file,
                             part.shown_name()));
  }

  /// Puts what stands for missing values for them, and for NaN. A label that is NaN is missing.
  void replace_missing(const ColumnPart& part, ColumnData& data, std::int64_t first, TextCodes& texts, bool as_text) const {
    const auto complete = layout_.complete.lower_bound(part.begin);
    const bool is_label = part.is_class || (complete != layout_.complete.end() && *complete < part.begin + part.width);
    if (is_label && !as_text) {
      data.missing.clear();
      for (std::size_t place = 0; place < data.numbers.size(); ++place)
        if (std::isnan(data.numbers[place])) data.missing.push_back(static_cast<std::int64_t>(place));
    }
    for (const std::int64_t place : data.missing) {
      const auto& stands_for_it = layout_.missing[static_cast<std::size_t>(part.begin + place % part.width)];
      const bool is_marked = stands_for_it && std::isnan(*stands_for_it);
      if (!stands_for_it || (is_label && !is_marked)) fail_missing(part, data, first, is_label);
      data.numbers[static_cast<std::size_t>(place)] = as_text && !is_marked ? texts.number_of("") : *stands_for_it;
    }
    if (as_text) return;
    for (std::size_t place = 0; place < data.numbers.size(); ++place) {
      const auto& number = layout_.missing[static_cast<std::size_t>(part.begin) + place % static_cast<std::size_t>(part.width)];
      if (number && std::isnan(data.numbers[place])) data.numbers[place] = *number;
    }
  }

  [[noreturn]] void fail_missing(const ColumnPart& part, const ColumnData& data, std::int64_t first, bool is_label) const {
    throw ConfigError(format("{}: {}{} missing in column {}, the first in row {} (from 0): {}", layout_.file,
                             is_last_group_ ? "" : "at least ",  // the groups behind are not read
                             data.missing.size() == 1 ? std::string(is_last_group_ ? "a value is" : "1 value is")
                                                      : format("{} values are", data.missing.size()),
                             part.shown_name(), first_row_ + first + data.missing.front() / part.width,
                             is_label
                                 ? "a row without a label is left out with `missing: drop`"
                                 : "set `missing` to the number that stands for it, or to drop, which leaves its row out; in "
                                   "a column of categories the number makes it one more"));
  }

  ColumnFile& file_;
  const ColumnLayout& layout_;
  CsvTable table_;
  std::int64_t first_row_ = 0;  ///< of the file
  bool is_last_group_ = false;  ///< of the file, the one that is being read
};

// Several tables.

bool are_distinct(const std::vector<std::string>& names) {
  return !names.empty() && std::set(names.begin(), names.end()).size() == names.size();
}

/// The number of each of the table's columns where the first has it.
std::vector<std::int64_t> order_as_in(const CsvTable& first, const CsvTable& table, const std::string& first_file,
                                      const std::string& file) {
  const std::int64_t width = first.values.defined() ? first.values.size(1) : std::ssize(first.columns);
  std::vector<std::int64_t> order(static_cast<std::size_t>(width));
  const bool is_by_name = are_distinct(first.columns) && are_distinct(table.columns);
  if (table.values.dim() != 2 || table.values.size(1) != width)
    throw ConfigError(format("{} has {} columns, {} has {}: files that are read as one have the same", file,
                             table.values.dim() == 2 ? table.values.size(1) : 1, first_file, width));
  for (std::int64_t column = 0; column < width; ++column) {
    const auto place = static_cast<std::size_t>(column);
    order[place] = column;
    if (!is_by_name) continue;
    const auto found = std::ranges::find(table.columns, first.columns[place]);
    if (found == table.columns.end())
      throw ConfigError(format("{} has no column {}, which {} has: files that are read as one have the same", file,
                               quoted_text(first.columns[place], 40), first_file));
    order[place] = found - table.columns.begin();
  }
  return order;
}

/// Adds the texts of a column of a table, and gives its numbers as theirs.
at::Tensor codes_of(TextCodes& codes, const std::vector<std::string>& texts, const at::Tensor& values) {
  at::Tensor numbers = values.clone();
  std::vector<double> number_of;
  for (const std::string& text : texts) number_of.push_back(codes.number_of(text));
  auto accessor = numbers.accessor<double, 1>();
  for (std::int64_t row = 0; row < numbers.size(0); ++row)
    if (!std::isnan(accessor[row])) accessor[row] = number_of[static_cast<std::size_t>(accessor[row])];
  return numbers;
}

}  // namespace

CsvTable read_column_file(const fs::path& path, const ColumnTableOptions& options) {
  const std::unique_ptr<ColumnFile> file = open_column_file(path, options.folder_columns);
  const ColumnLayout layout = layout_of(*file, path, options);
  return options.only_head ? layout.head : RowsReader(*file, layout).read(0, std::ssize(layout.rows_of_groups));
}

ColumnTable::ColumnTable(const fs::path& path, const ColumnTableOptions& options)
    : folder_columns_(options.folder_columns),
      layout_(layout_of(*open_column_file(path, options.folder_columns), path, options)) {}

std::int64_t ColumnTable::rows() const {
  return std::accumulate(rows_of_groups().begin(), rows_of_groups().end(), std::int64_t{0});
}

CsvTable ColumnTable::read(std::int64_t group) const {
  const std::unique_ptr<ColumnFile> file = open_column_file(path(), folder_columns_);
  if (file->row_groups() != std::ssize(rows_of_groups()) ||
      file->rows(group) != rows_of_groups()[static_cast<std::size_t>(group)])
    throw IoError(format("{}: it has changed since the run began", path()));
  return RowsReader(*file, layout_).read(group, group + 1);
}

CsvTable arranged_as(const CsvTable& first, const std::string& first_file, CsvTable table, const std::string& file) {
  const std::vector<std::int64_t> order = order_as_in(first, table, first_file, file);
  CsvTable arranged = std::move(table);
  arranged.columns = first.columns;
  arranged.places = first.places;
  arranged.columns_of_file = first.columns_of_file;
  arranged.width_of_file = first.width_of_file;
  if (std::ranges::is_sorted(order)) return arranged;
  arranged.values = arranged.values.index_select(1, at::tensor(order, at::kLong));
  const auto texts = std::exchange(arranged.texts, {});
  for (std::size_t column = 0; column < order.size(); ++column) {
    if (const auto found = texts.find(order[column]); found != texts.end())
      arranged.texts[static_cast<std::int64_t>(column)] = found->second;
  }
  arranged.class_place = std::ranges::find(order, arranged.class_place) - order.begin();
  return arranged;
}

CsvTable concatenated(std::vector<CsvTable> tables, const std::vector<std::string>& files) {
  // A file without rows may not say how long its lists are.
  const auto has_rows = [](const CsvTable& table) { return table.values.size(0) > 0; };
  const auto with_rows = std::ranges::find_if(tables, has_rows);
  const std::size_t first = with_rows == tables.end() ? 0 : static_cast<std::size_t>(with_rows - tables.begin());
  if (tables.size() == 1) return std::move(tables.front());
  CsvTable whole = tables[first];
  whole.line_starts.clear();
  whole.notes.clear();
  if (whole.values.dim() < 2) throw ConfigError(format("{} has no columns: give one file", files[first]));
  std::map<std::int64_t, TextCodes> codes;
  TextCodes classes;
  std::int64_t rows = 0;
  std::vector<at::Tensor> parts;
  for (std::size_t index = 0; index < tables.size(); ++index) {
    whole.notes.insert(whole.notes.end(), tables[index].notes.begin(), tables[index].notes.end());
    if (!has_rows(tables[index])) continue;
    const CsvTable table = arranged_as(whole, files[first], std::move(tables[index]), files[index]);
    whole.file_starts.emplace_back(rows, files[index]);
    rows += table.values.size(0);
    if (table.classes.empty() != whole.classes.empty())
      throw ConfigError(format("the labels of {} are {}, those of {} are not", files[index],
                               table.classes.empty() ? "numbers" : "texts", files[first]));
    for (const auto& [column, texts] : table.texts) {
      const at::Tensor numbers = table.values.select(1, column);
      numbers.copy_(codes_of(codes[column], texts, numbers));
    }
    if (!table.classes.empty()) {
      const at::Tensor numbers = table.values.select(1, whole.class_place);
      numbers.copy_(codes_of(classes, table.classes, numbers));
    }
    parts.push_back(table.values);
  }
  if (parts.empty()) return whole;
  whole.values = at::cat(parts, 0);
  for (const auto& [column, texts] : codes) whole.texts[column] = texts.sort(true, '.', whole.values.select(1, column));
  if (!classes.empty()) whole.classes = classes.sort(false, '.', whole.values.select(1, whole.class_place));
  return whole;
}

namespace {

/// The files of columns in a folder, and in its folders of a table in parts, but for Spark's own, such as _SUCCESS.
void add_column_files(const fs::path& folder, int depth, std::vector<fs::path>& files) {
  constexpr int kDeepest = 32;  // symbolic links may lead around in circles
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name.starts_with('_')) continue;
    if (entry.is_directory(ignored)) {
      if (name.find('=') != std::string::npos && depth < kDeepest) add_column_files(entry.path(), depth + 1, files);
    } else if (entry.is_regular_file(ignored) && column_format_of(entry.path()) != nullptr) {
      files.push_back(entry.path());
    }
  }
}

}  // namespace

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    std::vector<fs::path> files;
    add_column_files(path, 0, files);
    std::ranges::sort(files);
    if (files.empty()) {
      throw ConfigError(format("{}: it is a folder, and a file is needed; files of columns in it would end in {}", path,
                               join(column_file_endings(), " or ")));
    }
    return files;
  }
  std::vector<fs::path> files = files_meant_by(path);
  if (files.empty()) throw ConfigError(format("{}: there is no such file", path));
  return files;
}

}  // namespace levin::detail
