#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/data/input_file.h"

namespace levin::detail {

/// A text, and where it is from, for messages: "a.txt", or "a.jsonl, line 3".
struct Document {
  std::string text;
  std::string place;
  std::int64_t replaced = 0;  ///< parts that were no UTF-8
};

/// The documents of files, one after another.
class CorpusReader {
 public:
  CorpusReader(const std::vector<std::filesystem::path>& files, std::string json_field)
      : files_(files), json_field_(std::move(json_field)) {}

  /// Unset behind the last. Throws IoError for a file that cannot be read, and for a line that is no such JSON object.
  std::optional<Document> next();
  /// Bytes that were read, decompressed.
  std::int64_t bytes() const { return bytes_; }
  std::size_t files_read() const { return file_; }

 private:
  Document whole_file(const std::filesystem::path& path);
  /// Unset where the file has no more lines.
  std::optional<Document> next_line(const std::filesystem::path& path);
  std::string text_in(const std::string& line, const std::string& place) const;

  const std::vector<std::filesystem::path>& files_;
  std::string json_field_;
  std::size_t file_ = 0;
  std::unique_ptr<InputFile> lines_;
  std::int64_t line_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace levin::detail
