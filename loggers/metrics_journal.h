#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "levin/core/files/output_file.h"

namespace levin {

/// Rows that wait beside a CSV file until the file is rewritten, so that a process which is killed meanwhile does not lose
/// them: `FILE.journal`. Its first line has the size of the file that the rows belong to; a journal of another size was taken
/// into the file before its process was killed, and counts no more. A row is a line of pairs: name, number, name, number, ….
class MetricsJournal {
 public:
  explicit MetricsJournal(const std::filesystem::path& file);

  /// Appends whole lines. The first ones start the journal anew, with the present size of the file. Throws: IoError; the lines
  /// are then not in the journal.
  void append(std::string_view lines, std::int64_t file_size);
  /// Removes the journal, also one of an earlier run: its rows are in the file.
  void remove();

  /// Lets the journal of a file, if it has one, be that of the same file under another name.
  static void rename(const std::filesystem::path& file, const std::filesystem::path& new_name);
  /// Where the journal of a file is.
  static std::filesystem::path path_of(const std::filesystem::path& file);
  /// The journal to read with the rows of `file`, if it has one that counts.
  static std::optional<std::filesystem::path> to_read(const std::filesystem::path& file);

 private:
  std::filesystem::path path_;
  std::optional<OutputFile> output_;
  std::int64_t size_ = 0;
};

}  // namespace levin
