#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/formats/file_report.h"
#include "levin/core/formats/tensor_file.h"

namespace levin {

/// How files of one format are read: a new one is two files, with its reader, and a line in the list of tensor_file.cpp. All
/// throw IoError, without the file's name.
struct FormatReader {
  /// A file with these bytes is of this format.
  bool (*reads)(std::string_view bytes);
  /// `key`: which of several dicts of tensors; empty: none was asked for.
  TensorFile (*open)(const std::filesystem::path& file, std::string_view bytes, const std::string& key);
  /// The checksums that it has.
  std::vector<FileReport::Check> (*checks)(const std::filesystem::path& file, std::string_view bytes);
};

/// The one that reads a file with these bytes. Throws IoError where there is none.
const FormatReader& reader_of(std::string_view bytes);

}  // namespace levin
