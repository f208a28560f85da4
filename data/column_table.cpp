#include "levin/data/column_table.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <new>
#include <set>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/machine_memory.h"
#include "levin/core/base/text.h"
#include "levin/core/base/wildcards.h"
#include "levin/core/files/column_file.h"
#include "levin/data/text_codes.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

/// Columns that lists may become.
constexpr std::int64_t kMostOfList = 1 << 20;

class ColumnTableReader {
 public:
  ColumnTableReader(fs::path file, const ColumnTableOptions& options)
      : path_(std::move(file)), options_(options), file_(column_format_of(path_)->open(path_)) {}

  CsvTable read() {
    find_parts();
    name_parts();
    check_kinds();
    table_.width_of_file = std::ssize(table_.columns_of_file);
    for (const Part& part : parts_) add_places(part);
    if (table_.places.size() == table_.columns_of_file.size()) table_.places.clear();
    if (options_.only_head) return std::move(table_);
    table_.texts.clear();
    read_rows();
    return std::move(table_);
  }

 private:
  /// A column of the file, which is one of the table, or of lists several.
  struct Part {
    std::size_t column = 0;           ///< of the file
    std::int64_t begin = 0;           ///< its first column among those of the table, also of ones that are left out
    std::int64_t width = 1;           ///< how many
    std::int64_t place = 0;           ///< its first among the values
    std::vector<bool> is_taken = {};  ///< of its columns
    bool is_text = false;
    bool is_class = false;
  };

  const ColumnInfo& info(const Part& part) const { return file_->columns()[part.column]; }
  std::string shown(const Part& part) const { return quoted_text(info(part).name, 40); }

  // What the columns are.

  bool is_named_by_options(const std::string& name) const {
    const auto has = [&](const std::vector<std::string>& names) { return std::ranges::find(names, name) != names.end(); };
    return options_.class_column == name || has(options_.complete_columns) || has(options_.text_columns);
  }

  /// Leaves out pandas' index, and finds out how long lists are.
  void find_parts() {
    std::vector<std::string> indices;
    for (std::size_t column = 0; column < file_->columns().size(); ++column) {
      const ColumnInfo& info = file_->columns()[column];
      if (info.is_index && !is_named_by_options(info.name)) {
        indices.push_back(info.name);
        continue;
      }
      const bool is_ignored = std::ranges::find(options_.ignore_columns, info.name) != options_.ignore_columns.end();
      Part part{.column = column, .begin = std::ssize(table_.columns_of_file)};
      if (!info.is_list || info.kind == ColumnKind::kUnsupported || is_ignored) {
        table_.columns_of_file.push_back(info.name);
      } else {
        part.width = width_of_lists(column);
        if (part.width == 0 && !options_.only_head) {
          table_.notes.push_back(
              format("{}: column {} has no list with a number in it, and is left out", path_, quoted_text(info.name, 40)));
        }
        for (std::int64_t number = 0; number < part.width; ++number)
          table_.columns_of_file.push_back(format("{}[{}]", info.name, number));
      }
      part.is_taken.assign(static_cast<std::size_t>(part.width), !is_ignored);
      parts_.push_back(std::move(part));
    }
    if (indices.empty()) return;
    table_.notes.push_back(
        format("{}: {} {} the index that pandas wrote, and left out; name it with reset_index() if it is data", path_,
               quoted_list(indices), indices.size() == 1 ? "is" : "are"));
  }

  std::int64_t width_of_lists(std::size_t column) {
    for (std::int64_t group = 0; group < file_->row_groups(); ++group) {
      if (file_->rows(group) == 0) continue;
      const ColumnData data = file_->read(group, column, {});
      if (!data.shape) continue;
      std::int64_t width = 1;
      for (const std::int64_t size : *data.shape) width *= size;
      if (width > kMostOfList) {
        throw ConfigError(format("{}: a list in column {} has {} numbers: leave it out with ignore_columns", path_,
                                 quoted_text(file_->columns()[column].name, 40), width));
      }
      return width;
    }
    return 0;
  }

  /// What the options say of each.
  void name_parts() {
    const auto part_of = [&](const std::string& wanted) -> std::pair<Part*, std::int64_t> {
      const auto column = find_column(table_.columns_of_file, std::ssize(table_.columns_of_file), wanted);
      if (!column) return {nullptr, 0};
      const auto next = std::ranges::upper_bound(parts_, *column, {}, &Part::begin);
      return {&*std::prev(next), *column - std::prev(next)->begin};
    };
    for (const std::string& name : options_.text_columns)
      if (Part* const part = part_of(name).first) part->is_text = true;
    if (Part* const part = part_of(options_.class_column).first) part->is_class = true;
    for (const std::string& name : options_.complete_columns) {
      const auto [part, offset] = part_of(name);
      if (part == nullptr) continue;
      const std::int64_t column = part->begin + offset;
      // The last column may be one by chance.
      if (info(*part).is_list && info(*part).kind == ColumnKind::kNumber &&
          name != table_.columns_of_file[static_cast<std::size_t>(column)]) {
        throw ConfigError(
            format("label_column: column {} of {} holds lists: name a column of single values, or one number of a list",
                   shown(*part), path_));
      }
      complete_.insert(column);
    }
    for (const std::string& name : options_.ignore_columns)
      if (const auto [part, offset] = part_of(name); part != nullptr) part->is_taken[static_cast<std::size_t>(offset)] = false;
    missing_.assign(table_.columns_of_file.size(), options_.missing);
    for (const auto& [name, number] : options_.missing_in) {
      for (const Part& part : parts_) {
        for (std::int64_t offset = 0; offset < part.width; ++offset) {
          const auto column = static_cast<std::size_t>(part.begin + offset);
          if (name == info(part).name || name == table_.columns_of_file[column]) missing_[column] = number;
        }
      }
    }
  }

  static bool is_taken(const Part& part) {
    return std::ranges::any_of(part.is_taken, [](bool is_taken) { return is_taken; });
  }

  /// Names all columns at once that cannot be read.
  void check_kinds() const {
    if (options_.only_head) return;
    std::vector<std::string> unsupported, texts;
    for (const Part& part : parts_) {
      if (!is_taken(part)) continue;
      const ColumnInfo& column = info(part);
      if (column.kind == ColumnKind::kUnsupported || (column.is_list && part.is_text))
        unsupported.push_back(format("{} ({})", shown(part), column.type));
      if (column.kind == ColumnKind::kText && !part.is_text && !part.is_class)
        texts.push_back(format("{}{}", shown(part), complete_.contains(part.begin) ? ", the label" : ""));
    }
    if (!unsupported.empty()) {
      throw ConfigError(format(
          "{}: {} neither numbers nor texts: leave {} out with ignore_columns", path_,
          unsupported.size() == 1 ? format("column {} has", unsupported[0]) : format("columns {} have", join(unsupported)),
          unsupported.size() == 1 ? "it" : "them"));
    }
    if (!texts.empty()) {
      throw ConfigError(
          format("{}: {} texts where numbers are needed: name {} in one_hot_columns or code_columns, or leave {} out "
                 "with ignore_columns",
                 path_, texts.size() == 1 ? format("column {} has", texts[0]) : format("columns {} have", join(texts)),
                 texts.size() == 1 ? "it" : "them", texts.size() == 1 ? "it" : "them"));
    }
  }

  void add_places(const Part& part) {
    const bool holds_texts = info(part).kind == ColumnKind::kText;
    for (std::int64_t offset = 0; offset < part.width; ++offset) {
      if (!part.is_taken[static_cast<std::size_t>(offset)]) continue;
      if (holds_texts) table_.texts[std::ssize(table_.places)];
      table_.places.push_back(part.begin + offset);
      table_.columns.push_back(table_.columns_of_file[static_cast<std::size_t>(part.begin + offset)]);
    }
  }

  // The rows.

  void read_rows() {
    std::int64_t rows = 0;
    for (std::int64_t group = 0; group < file_->row_groups(); ++group) rows += file_->rows(group);
    const auto width = std::ssize(table_.columns);
    check_memory(rows, width);
    try {
      // Column by column in memory, as they are read.
      table_.values = at::empty({width, rows}, at::kDouble).t();
    } catch (const std::exception&) {
      throw_too_large(rows, width);
    }
    std::int64_t place = 0;
    for (Part& part : parts_) {
      part.place = place;
      place += std::ranges::count(part.is_taken, true);
    }
    std::vector<TextCodes> texts(parts_.size());
    std::int64_t first = 0;
    for (std::int64_t group = 0; group < file_->row_groups(); ++group) {
      for (std::size_t part = 0; part < parts_.size(); ++part)
        if (is_taken(parts_[part])) take(parts_[part], group, first, texts[part]);
      first += file_->rows(group);
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (texts[part].empty()) continue;
      std::vector<std::string> sorted =
          texts[part].sort(parts_[part].is_text, '.', table_.values.select(1, parts_[part].place));
      if (parts_[part].is_class) {
        table_.classes = std::move(sorted);
        table_.class_place = parts_[part].place;
      } else {
        table_.texts[parts_[part].place] = std::move(sorted);
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
    throw IoError(format("{}: there is not enough memory for its {} rows of {} numbers, each of which takes 8 bytes", path_,
                         rows, width));
  }

  /// The rows of one group.
  void take(const Part& part, std::int64_t group, std::int64_t first, TextCodes& texts) {
    const bool as_text = part.is_text || (part.is_class && info(part).kind == ColumnKind::kText);
    ColumnData data = file_->read(group, part.column, {.as_text = as_text, .times_in_days = options_.times_in_days});
    const std::int64_t rows = file_->rows(group);
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
  void check_shape(const Part& part, ColumnData& data, std::int64_t rows) const {
    if (!data.shape) {
      data.numbers.assign(static_cast<std::size_t>(rows * part.width), std::nan(""));
      for (std::int64_t place = 0; place < rows * part.width; ++place) data.missing.push_back(place);
    }
    if (std::ssize(data.numbers) == rows * part.width) return;
    throw ConfigError(
        format("{}: column {} has lists of different lengths: leave it out with ignore_columns", path_, shown(part)));
  }

  /// Puts what stands for missing values for them, and for NaN. A label that is NaN is missing.
  void replace_missing(const Part& part, ColumnData& data, std::int64_t first, TextCodes& texts, bool as_text) const {
    const auto complete = complete_.lower_bound(part.begin);
    const bool is_label = part.is_class || (complete != complete_.end() && *complete < part.begin + part.width);
    if (is_label && !as_text) {
      data.missing.clear();
      for (std::size_t place = 0; place < data.numbers.size(); ++place)
        if (std::isnan(data.numbers[place])) data.missing.push_back(static_cast<std::int64_t>(place));
    }
    for (const std::int64_t place : data.missing) {
      const auto& stands_for_it = missing_[static_cast<std::size_t>(part.begin + place % part.width)];
      const bool is_marked = stands_for_it && std::isnan(*stands_for_it);
      if (!stands_for_it || (is_label && !is_marked)) fail_missing(part, data, first, is_label);
      data.numbers[static_cast<std::size_t>(place)] = as_text && !is_marked ? texts.number_of("") : *stands_for_it;
    }
    if (as_text) return;
    for (std::size_t place = 0; place < data.numbers.size(); ++place) {
      const auto& number = missing_[static_cast<std::size_t>(part.begin) + place % static_cast<std::size_t>(part.width)];
      if (number && std::isnan(data.numbers[place])) data.numbers[place] = *number;
    }
  }

  [[noreturn]] void fail_missing(const Part& part, const ColumnData& data, std::int64_t first, bool is_label) const {
    throw ConfigError(
        format("{}: {} missing in column {}, the first in row {} (from 0): {}", path_,
               data.missing.size() == 1 ? std::string("a value is") : format("{} values are", data.missing.size()), shown(part),
               first + data.missing.front() / part.width,
               is_label ? "a row without a label is left out with `missing: drop`"
                        : "set `missing` to the number that stands for it, or to drop, which leaves its row out; in "
                          "a column of categories the number makes it one more"));
  }

  fs::path path_;
  const ColumnTableOptions& options_;
  std::unique_ptr<ColumnFile> file_;
  CsvTable table_;
  std::vector<Part> parts_;
  std::set<std::int64_t> complete_;             ///< of the table's columns, those in which no value may be missing
  std::vector<std::optional<double>> missing_;  ///< of each of them
};

// Several tables.

bool are_distinct(const std::vector<std::string>& names) {
  return !names.empty() && std::set(names.begin(), names.end()).size() == names.size();
}

/// The number of each of the table's columns where the first has it.
std::vector<std::int64_t> order_as_in(const CsvTable& first, const CsvTable& table, const std::string& first_file,
                                      const std::string& file) {
  const std::int64_t width = first.values.size(1);
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

CsvTable read_column_file(const fs::path& file, const ColumnTableOptions& options) {
  return ColumnTableReader(file, options).read();
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
  std::vector<at::Tensor> columns;
  std::map<std::int64_t, TextCodes> codes;
  TextCodes classes;
  std::int64_t rows = 0;
  std::vector<at::Tensor> parts;
  for (std::size_t index = 0; index < tables.size(); ++index) {
    const CsvTable& table = tables[index];
    whole.notes.insert(whole.notes.end(), table.notes.begin(), table.notes.end());
    if (!has_rows(table)) continue;
    const std::vector<std::int64_t> order = order_as_in(tables[first], table, files[first], files[index]);
    whole.file_starts.emplace_back(rows, files[index]);
    rows += table.values.size(0);
    if (table.classes.empty() != tables[first].classes.empty())
      throw ConfigError(format("the labels of {} are {}, those of {} are not", files[index],
                               table.classes.empty() ? "numbers" : "texts", files[first]));
    at::Tensor values = table.values.index_select(1, at::tensor(order, at::kLong));
    for (std::size_t column = 0; column < order.size(); ++column) {
      const auto texts = table.texts.find(order[column]);
      const at::Tensor numbers = values.select(1, static_cast<std::int64_t>(column));
      if (texts != table.texts.end()) numbers.copy_(codes_of(codes[static_cast<std::int64_t>(column)], texts->second, numbers));
    }
    if (!table.classes.empty()) {
      const at::Tensor numbers = values.select(1, whole.class_place);  // in the order of the first
      numbers.copy_(codes_of(classes, table.classes, numbers));
    }
    parts.push_back(std::move(values));
  }
  if (parts.empty()) return whole;
  whole.values = at::cat(parts, 0);
  for (const auto& [column, texts] : codes) whole.texts[column] = texts.sort(true, '.', whole.values.select(1, column));
  if (!classes.empty()) whole.classes = classes.sort(false, '.', whole.values.select(1, whole.class_place));
  return whole;
}

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
      const std::string name = entry.path().filename().string();
      // Spark's own files, such as _SUCCESS.
      if (!name.starts_with('.') && !name.starts_with('_') && column_format_of(entry.path()) != nullptr &&
          entry.is_regular_file())
        files.push_back(entry.path());
    }
    std::ranges::sort(files);
    if (files.empty()) {
      throw ConfigError(format("{}: it is a folder, and a file is needed; files of columns in it would end in {}", path,
                               join(column_file_endings(), " or ")));
    }
    return files;
  }
  if (fs::exists(path, ignored) || !has_wildcards(path)) return {path};
  std::vector<fs::path> files = matching_files(path);
  if (files.empty()) throw ConfigError(format("{}: there is no such file", path));
  return files;
}

}  // namespace levin::detail
