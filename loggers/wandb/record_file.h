#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "levin/core/files/atomic_file.h"

namespace levin::wandb {

/// A run file as W&B keeps it (`run-ID.wandb`): a header of 7 bytes, and records in chunks as LevelDB's log has them, in blocks
/// of 32 KiB, each chunk with its CRC-32.
class RecordFile {
 public:
  /// Makes the file. Throws IoError.
  explicit RecordFile(const std::filesystem::path& path);

  /// Appends a record, which is with the kernel then: a kill loses nothing of it. Throws IoError; another call tries again.
  void add(std::string_view record);

 private:
  OutputFile file_;
  std::int64_t size_ = 0;
};

/// The chunks of a record that begins at this place of the file.
std::string framed(std::string_view record, std::int64_t place);

/// Reads the records of such a file, one after another. It ends before one that is damaged, such as the last of a run that was
/// killed.
class RecordReader {
 public:
  /// Throws IoError when the file cannot be read.
  explicit RecordReader(const std::filesystem::path& path);

  bool next(std::string& record);

 private:
  std::ifstream stream_;
  std::int64_t place_ = 0;
};

}  // namespace levin::wandb
