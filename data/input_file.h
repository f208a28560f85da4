#pragma once

#include <cstdint>
#include <filesystem>
#include <streambuf>
#include <string>
#include <vector>

struct gzFile_s;

namespace levin {

/// A file of data, read once from its beginning, and decompressed on the way when it is a gzip file. It throws as
/// read_input_file().
class InputFile final : public std::streambuf {
 public:
  InputFile(const std::filesystem::path& path, double max_expansion);
  ~InputFile() override;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size_on_disk() const { return size_on_disk_; }
  /// Reads on. False: there was nothing more.
  bool append_piece_to(std::string& content);

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  int_type underflow() override;
  void check_expansion() const;

  std::filesystem::path path_;
  double max_expansion_;
  std::vector<char> buffer_;
  gzFile_s* file_ = nullptr;
  std::uint64_t size_on_disk_ = 0;
  std::uint64_t read_ = 0;  ///< decompressed bytes
};

}  // namespace levin
