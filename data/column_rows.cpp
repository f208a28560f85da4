#include "levin/data/column_rows.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/column_file.h"
#include "levin/core/files/remote_file.h"

namespace levin {

namespace fs = std::filesystem;

namespace {

std::unique_ptr<ColumnFile> opened(const fs::path& place) {
  const fs::path file = local_copy(place.string());
  const ColumnFormat* const format = column_format_of(file);
  if (format == nullptr) {
    throw ConfigError(
        levin::format("'{}' holds no columns: names of such files end in {}", place.string(), join(column_file_endings())));
  }
  return format->open(file);
}

bool is_among_columns(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The columns that are read, by their places in the file.
std::vector<std::size_t> chosen(const ColumnFile& file, const fs::path& name, const RowReading& reading) {
  const std::vector<ColumnInfo>& columns = file.columns();
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < columns.size(); ++place) {
    const bool is_wanted = reading.columns.empty() ? columns[place].kind != ColumnKind::kUnsupported
                                                   : is_among_columns(reading.columns, columns[place].name);
    if (is_wanted) places.push_back(place);
  }
  std::vector<std::string> names;
  for (const ColumnInfo& column : columns) names.push_back(column.name);
  for (const auto* wanted : {&reading.columns, &reading.text_columns}) {
    for (const std::string& column : *wanted) {
      if (!is_among_columns(names, column))
        throw ConfigError(
            format("'{}' has no column {}{}", name.string(), quoted_text(column), did_you_mean(column, names, "columns")));
    }
  }
  return places;
}

}  // namespace

/// The columns of a group, once they have been read.
struct RowGroup::Content {
  struct Column {
    ColumnKind kind = ColumnKind::kNumber;
    ColumnData data;
    std::int64_t numbers_of_row = 1;
  };

  fs::path file;
  std::int64_t group = 0;
  std::shared_ptr<const RowReading> reading;
  std::once_flag is_read;
  std::map<std::string, Column, std::less<>> columns;

  void read() {
    const std::unique_ptr<ColumnFile> opened_file = opened(file);
    for (const std::size_t place : chosen(*opened_file, file, *reading)) {
      const ColumnInfo& info = opened_file->columns()[place];
      const bool as_text = info.kind == ColumnKind::kText || is_among_columns(reading->text_columns, info.name);
      Column column{.kind = as_text ? ColumnKind::kText : ColumnKind::kNumber,
                    .data = opened_file->read(group, place, {.as_text = as_text, .times_in_days = reading->times_in_days})};
      for (const std::int64_t side : column.data.shape.value_or(std::vector<std::int64_t>())) column.numbers_of_row *= side;
      columns.insert_or_assign(info.name, std::move(column));
    }
  }

  const Column& find(std::string_view name) {
    std::call_once(is_read, [this] { read(); });
    const auto found = columns.find(name);
    if (found != columns.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [own, column] : columns) names.push_back(own);
    throw ConfigError(format("'{}' has no column {} that is read: {}", file.string(), quoted_text(name), quoted_list(names)));
  }
};

RowGroup::RowGroup(fs::path file, std::int64_t group, std::int64_t rows, std::shared_ptr<const RowReading> reading)
    : rows_(rows), content_(std::make_shared<Content>()) {
  content_->file = std::move(file);
  content_->group = group;
  content_->reading = std::move(reading);
}

at::Tensor ColumnRow::tensor(std::string_view column) const {
  const RowGroup::Content::Column& found = group_.content_->find(column);
  if (found.kind == ColumnKind::kText)
    throw ConfigError(format("the column {} holds texts: ask for text()", quoted_text(column)));
  at::Tensor values = at::empty(found.data.shape.value_or(std::vector<std::int64_t>()), at::kFloat);
  const auto first = found.data.numbers.begin() + row_ * found.numbers_of_row;
  std::transform(first, first + found.numbers_of_row, values.mutable_data_ptr<float>(),
                 [](double number) { return static_cast<float>(number); });
  return values;
}

double ColumnRow::number(std::string_view column) const {
  const RowGroup::Content::Column& found = group_.content_->find(column);
  if (found.kind == ColumnKind::kText || !found.data.shape || !found.data.shape->empty()) {
    throw ConfigError(format("the column {} holds {}: ask for {}", quoted_text(column),
                             found.kind == ColumnKind::kText ? "texts" : "lists",
                             found.kind == ColumnKind::kText ? "text()" : "tensor()"));
  }
  return found.data.numbers[static_cast<std::size_t>(row_)];
}

bool ColumnRow::is_missing(std::string_view column) const {
  const RowGroup::Content::Column& found = group_.content_->find(column);
  const std::vector<std::int64_t>& missing = found.data.missing;
  const auto place = std::ranges::lower_bound(missing, row_ * found.numbers_of_row);
  return place != missing.end() && *place < (row_ + 1) * found.numbers_of_row;
}

const std::string& ColumnRow::text(std::string_view column) const {
  static const std::string missing;
  const RowGroup::Content::Column& found = group_.content_->find(column);
  if (found.kind != ColumnKind::kText)
    throw ConfigError(format("the column {} holds numbers: ask for number(), or name it in text_columns", quoted_text(column)));
  if (is_missing(column)) return missing;
  return found.data.texts[static_cast<std::size_t>(found.data.numbers[static_cast<std::size_t>(row_)])];
}

Pipeline<RowGroup> from_row_groups(const std::vector<std::string>& patterns, const RowReading& reading) {
  const auto shared = std::make_shared<const RowReading>(reading);
  return from_files(patterns).flat_map([shared](const fs::path& name) {
    const std::unique_ptr<ColumnFile> file = opened(name);
    chosen(*file, name, *shared);  // throws for a column that there is not
    std::vector<RowGroup> groups;
    for (std::int64_t group = 0; group < file->row_groups(); ++group)
      groups.emplace_back(name, group, file->rows(group), shared);
    return groups;
  });
}

Pipeline<ColumnRow> rows_of(const RowGroup& group) {
  return Pipeline<ColumnRow>(pipeline_nodes::indexed(
      group.rows(), [group](std::int64_t row) { return pipeline_types::made(ColumnRow(group, row)); }, nullptr));
}

}  // namespace levin
