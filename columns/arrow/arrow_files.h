#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "levin/core/files/column_file.h"

namespace levin {

/// What reads and writes files of columns: liblevin_columns.so, with Arrow's and Parquet's libraries. Its functions, and those
/// of the files, throw std::runtime_error with what is wrong with a file, and std::invalid_argument where its values do not
/// fit. `most_bytes` is what the file may take of the memory at once, whatever it claims to hold. Threading: any; a file one
/// call at a time.
struct ArrowFiles {
  std::unique_ptr<ColumnFile> (*open)(const std::string& path, std::int64_t most_bytes);
  /// The same for a file in memory, which is copied.
  std::unique_ptr<ColumnFile> (*open_memory)(std::span<const std::byte> file, std::int64_t most_bytes);
  std::string (*parquet_of)(const std::vector<ColumnToWrite>& columns);
};

}  // namespace levin

extern "C" __attribute__((visibility("default"))) const levin::ArrowFiles* levin_arrow_files();
