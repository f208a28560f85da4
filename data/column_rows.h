#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/pipeline.h"

namespace levin {

/// How the columns of Parquet, Arrow and Feather files are read row by row.
struct LEVIN_API RowReading {
  std::vector<std::string> columns = {};       ///< empty: all that can be read
  std::vector<std::string> text_columns = {};  ///< of numbers that are to be texts, such as codes
  bool times_in_days = false;                  ///< dates and times are days, not seconds, since 1970
};

/// A group of rows of a file, which is read as a whole when the first of its rows is.
class LEVIN_API RowGroup {
 public:
  /// Throws IoError and ConfigError as from_row_groups().
  RowGroup(std::filesystem::path file, std::int64_t group, std::int64_t rows, std::shared_ptr<const RowReading> reading);
  std::int64_t rows() const { return rows_; }

 private:
  friend class ColumnRow;
  struct Content;
  std::int64_t rows_;
  std::shared_ptr<Content> content_;
};

/// One row. Threading: any.
class LEVIN_API ColumnRow {
 public:
  ColumnRow(RowGroup group, std::int64_t row) : group_(std::move(group)), row_(row) {}

  /// NaN where it is missing. Throws ConfigError, which lists the columns, for a name that there is not, and for a column of
  /// texts or lists; the others likewise.
  double number(std::string_view column) const;
  /// Of a column of numbers or of lists: float, of the shape of one row.
  at::Tensor tensor(std::string_view column) const;
  /// Empty where it is missing.
  const std::string& text(std::string_view column) const;
  bool is_missing(std::string_view column) const;

 private:
  RowGroup group_;
  std::int64_t row_;
};

/// The groups of rows of Parquet, Arrow and Feather files, one file after another. Throws ConfigError where a pattern names no
/// file, there is no such column, or levin was built without such files; IoError for a damaged one.
LEVIN_API Pipeline<RowGroup> from_row_groups(const std::vector<std::string>& patterns, const RowReading& reading = {});
inline Pipeline<RowGroup> from_row_groups(const std::string& pattern, const RowReading& reading = {}) {
  return from_row_groups(std::vector<std::string>{pattern}, reading);
}

/// The rows of a group: what flat_map() takes. Those that are passed over are not read.
LEVIN_API Pipeline<ColumnRow> rows_of(const RowGroup& group);

/// The rows of files that may be larger than the memory: from_row_groups(…).flat_map(rows_of).
///
///     levin::from_row_groups("trips/*.parquet").shuffle().flat_map(levin::rows_of, {.at_once = 2}).shuffle(10'000)
inline Pipeline<ColumnRow> from_rows(const std::string& pattern, const RowReading& reading = {}) {
  return from_row_groups(pattern, reading).flat_map(rows_of);
}

}  // namespace levin
