#include "levin/data/folder_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/base/wildcards.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

FolderValues values_in(const fs::path& folder) {
  FolderValues values;
  for (const fs::path& part : folder) {
    const std::string& name = part.native();
    if (const std::size_t end = name.find('='); end != std::string::npos && end > 0)
      values.emplace_back(percent_decoded(name.substr(0, end)), percent_decoded(name.substr(end + 1)));
  }
  return values;
}

/// Where the part of a path begins that stands for several files.
fs::path fixed_part(const fs::path& given) {
  std::error_code ignored;
  if (fs::is_directory(given, ignored)) return given;
  fs::path fixed;
  for (const fs::path& part : given.parent_path()) {
    if (has_wildcards(part)) break;
    fixed /= part;
  }
  return fixed;
}

std::optional<double> number_in(const std::string& value) {
  const std::optional<double> number = parse_float(value);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// As Hive writes it.
bool is_missing(const std::string& value) { return value == "__HIVE_DEFAULT_PARTITION__"; }

std::vector<std::string> names_of(const FolderValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

/// A column of one value.
struct Constant {
  std::string value;
  std::optional<double> number;  ///< unset: it is a text

  ColumnData rows(std::int64_t count, const ColumnReading& reading) const {
    ColumnData data;
    const auto size = static_cast<std::size_t>(count);
    if (is_missing(value)) {
      data.numbers.assign(size, std::numeric_limits<double>::quiet_NaN());
      data.missing.resize(size);
      std::iota(data.missing.begin(), data.missing.end(), 0);
      return data;
    }
    const bool as_text = reading.as_text || !number;
    data.numbers.assign(size, as_text ? 0.0 : *number);
    if (as_text) data.texts = {value};
    return data;
  }
};

class FileInFolders final : public ColumnFile {
 public:
  FileInFolders(std::unique_ptr<ColumnFile> file, const fs::path& path, const std::vector<FolderColumn>& of_folders)
      : file_(std::move(file)) {
    const FolderValues values = values_in(path.parent_path());
    for (const FolderColumn& column : of_folders) add(column, values, path);
    columns_.insert(columns_.end(), file_->columns().begin(), file_->columns().end());
  }
  const std::vector<ColumnInfo>& columns() const override { return columns_; }
  std::int64_t row_groups() const override { return file_->row_groups(); }
  std::int64_t rows(std::int64_t group) const override { return file_->rows(group); }
  bool reads_groups_alone() const override { return file_->reads_groups_alone(); }
  ColumnData read(std::int64_t group, std::size_t column, const ColumnReading& reading) override {
    if (column < constants_.size()) return constants_[column].rows(rows(group), reading);
    return file_->read(group, column - constants_.size(), reading);
  }

 private:
  void add(const FolderColumn& column, const FolderValues& values, const fs::path& path) {
    const auto has_name = [&](const ColumnInfo& info) { return info.name == column.name; };
    if (std::ranges::any_of(file_->columns(), has_name)) return;
    const auto last =
        std::find_if(values.rbegin(), values.rend(), [&](const auto& value) { return value.first == column.name; });
    if (last == values.rend()) {
      throw ConfigError(format("{}: it stands in no folder named '{}=…', as the training data does, and has no such column",
                               path, column.name));
    }
    const std::optional<double> number = column.is_number ? number_in(last->second) : std::nullopt;
    if (column.is_number && !number && !is_missing(last->second)) {
      throw ConfigError(format("{}: the value of its folder '{}={}' is no number, and those of the training data are", path,
                               column.name, last->second));
    }
    constants_.push_back({last->second, number});
    columns_.push_back({.name = column.name,
                        .type = column.is_number ? "number of a folder" : "text of a folder",
                        .kind = column.is_number ? ColumnKind::kNumber : ColumnKind::kText});
  }

  std::unique_ptr<ColumnFile> file_;
  std::vector<Constant> constants_;
  std::vector<ColumnInfo> columns_;
};

}  // namespace

std::vector<FolderValues> values_of_folders(const fs::path& given, const std::vector<fs::path>& files) {
  const fs::path fixed = fixed_part(given);
  std::vector<FolderValues> values;
  for (const fs::path& file : files) {
    const bool has_columns = column_format_of(file) != nullptr;  // folders of others may be named by anything
    values.push_back(has_columns ? values_in(file.parent_path().lexically_relative(fixed)) : FolderValues());
  }
  return values;
}

std::vector<FolderColumn> folder_columns_of(const std::vector<FolderValues>& values, const std::vector<fs::path>& files) {
  std::vector<FolderColumn> columns;
  for (std::size_t file = 0; file < files.size(); ++file) {
    if (names_of(values[file]) == names_of(values[0])) continue;
    throw ConfigError(
        format("{} stands in folders of the columns {}, {} in those of {}: files that are read as one have the same",
               files[file], quoted_list(names_of(values[file])), files[0], quoted_list(names_of(values[0]))));
  }
  for (std::size_t place = 0; !values.empty() && place < values[0].size(); ++place) {
    const bool is_number = std::ranges::all_of(values, [&](const FolderValues& of_file) {
      const std::string& value = of_file[place].second;
      return is_missing(value) || number_in(value).has_value();
    });
    columns.push_back({values[0][place].first, is_number});
  }
  return columns;
}

std::unique_ptr<ColumnFile> open_column_file(const fs::path& file, const std::vector<FolderColumn>& of_folders) {
  std::unique_ptr<ColumnFile> opened = column_format_of(file)->open(file);
  if (of_folders.empty()) return opened;
  return std::make_unique<FileInFolders>(std::move(opened), file, of_folders);
}

}  // namespace levin::detail
