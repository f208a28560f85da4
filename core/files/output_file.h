#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace levin {

/// A file that is open for writing at places of the writer's choice. Every failure is an IoError with path and reason.
class OutputFile {
 public:
  /// Makes a file and opens it. Throws IoError when anything of that name is there, a link included.
  static OutputFile make(std::filesystem::path path);
  /// Takes over an open descriptor.
  OutputFile(std::filesystem::path path, int descriptor);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  void write_at(std::int64_t offset, std::string_view text);
  void resize(std::int64_t size);
  /// The path still leads to this file. False: another file has taken its place, or there is none.
  bool is_in_place() const;

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace levin
