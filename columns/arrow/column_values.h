#pragma once

// Arrow's arrays as numbers and texts.

#include <arrow/type_fwd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "levin/core/files/column_file.h"

namespace levin::arrow_files {

/// The result of a function of Arrow's. Throws std::runtime_error with its reason.
template <class Result>
auto value_of(Result result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).ValueUnsafe();
}
template <class Status>
void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

/// What a column of this type is, without its name.
ColumnInfo info_of(const arrow::DataType& type);

/// The values of a column; `first_row` is the file's number of the first, for messages. Checks all that the file says of them.
/// Throws std::invalid_argument where a value does not fit into a float, or lists differ in length, std::runtime_error where
/// the array is damaged or would be larger than `most_bytes`.
ColumnData values_of(const arrow::ChunkedArray& column, const ColumnReading& reading, std::int64_t first_row,
                     std::int64_t most_bytes);

}  // namespace levin::arrow_files
