#pragma once

#include <cstdint>
#include <filesystem>
#include <streambuf>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"

struct gzFile_s;

namespace levin {

/// What becomes of a pipe in place of a file.
enum class Pipes { kRefused, kRead };

/// A file of data, read once from its beginning, and decompressed on the way when it is a gzip file. It throws as
/// read_input_file(); a pipe that is to be read needs a program that opens its other end within 5 s.
class LEVIN_API InputFile final : public std::streambuf {
 public:
  InputFile(const std::filesystem::path& path, double max_expansion, Pipes pipes = Pipes::kRefused);
  ~InputFile() override;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size_on_disk() const { return size_on_disk_; }
  /// Reads on. False: there was nothing more.
  bool append_piece_to(std::string& content);

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  int_type underflow() override;
  void open_pipe();
  void check_expansion() const;

  std::filesystem::path path_;
  double max_expansion_;
  std::vector<char> buffer_;
  gzFile_s* file_ = nullptr;
  std::uint64_t size_on_disk_ = 0;
  std::uint64_t read_ = 0;  ///< decompressed bytes
};

}  // namespace levin
