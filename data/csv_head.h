#pragma once

// What the first row of a CSV file says: it names the columns where none of its fields is a number, where it has a name that
// the options have, or where it numbers them (0, 1, 2, …), as pandas does with columns that have no names; else it is a sample.
// A first column without a name, or one that pandas has called "Unnamed: 0", is an index.

#include <cstdint>
#include <string>
#include <vector>

#include "levin/data/csv_file.h"
#include "levin/data/csv_rows.h"

namespace levin::detail {

/// What is done with the fields of a column.
enum class CsvRole : std::uint8_t { kNumber, kText, kClass, kIgnored, kIndex };

struct CsvHead {
  bool has_names = false;  ///< else the row is a sample
  std::vector<std::string> names = {};
  std::vector<CsvRole> roles = {};  ///< of all columns of the file
  std::vector<bool> complete = {};  ///< of all: whether a missing value is an error, whatever `missing` says
  std::vector<std::string> notes = {};
};

/// Of the row that was read first. Throws IoError where the file is no such text, or options must decide what the row is.
CsvHead read_head(const CsvRows& first, const CsvOptions& options);

}  // namespace levin::detail
