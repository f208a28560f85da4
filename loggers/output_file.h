#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace levin {

/// A file that is written at places of the writer's choice. Every failure is an IoError with path and reason.
class OutputFile {
 public:
  /// Opens a file for writing, made when missing. `truncate`: what it held goes.
  OutputFile(std::filesystem::path path, bool truncate);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::int64_t size() const;
  void write_at(std::int64_t offset, std::string_view text);
  void resize(std::int64_t size);
  /// Waits until the content is on the disk.
  void sync();
  /// Renames the file, replacing what was there, and brings the folder's entry to the disk.
  void rename_to(const std::filesystem::path& path);

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int fd_;
};

}  // namespace levin
