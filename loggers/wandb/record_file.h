#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "levin/core/files/atomic_file.h"

namespace levin::wandb {

/// W&B's run file (`run-ID.wandb`): a header of 7 bytes, and records in chunks like those of LevelDB's log, in blocks of 32
/// KiB, each chunk with its CRC-32.
class RecordFile {
 public:
  /// Creates the file. Throws IoError.
  explicit RecordFile(const std::filesystem::path& path);

  /// Appends a record. The kernel has it then: a kill does not lose it. Throws IoError; call again to retry.
  void add(std::string_view record);

 private:
  OutputFile file_;
  std::int64_t size_ = 0;
};

/// The chunks of a record at this offset of the file.
std::string framed(std::string_view record, std::int64_t offset);

/// Reads the records of such a file in order, up to a damaged one, such as the last of a killed run.
class RecordReader {
 public:
  /// Throws IoError if the file cannot be read.
  explicit RecordReader(const std::filesystem::path& path);

  bool next(std::string& record);

 private:
  std::ifstream stream_;
  std::int64_t offset_ = 0;
};

}  // namespace levin::wandb
