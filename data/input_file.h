#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <streambuf>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

class StreamDecoder;

/// What becomes of a pipe in place of a file.
enum class Pipes { kRefused, kRead };

/// How a file is compressed. Reading, its first bytes say it, whatever its name is.
enum class Compression { kNone, kGzip, kZstd };

/// What the names of such files end in: "", ".gz", ".zst".
LEVIN_API const char* ending_of(Compression compression);
/// The path without such an ending: "a.csv.gz" is "a.csv".
LEVIN_API std::filesystem::path without_compression_ending(const std::filesystem::path& path);

/// A file of data, read once from its beginning, and decompressed on the way when it is a gzip or zstd file. It throws as
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
  void begin();
  bool fill();
  std::size_t decompress();
  void check_expansion() const;

  std::filesystem::path path_;
  double max_expansion_;
  int descriptor_ = -1;
  std::unique_ptr<StreamDecoder> decoder_;  ///< null: not compressed
  bool has_begun_ = false;
  std::vector<char> raw_;         ///< the file's bytes
  std::span<const char> unread_;  ///< of raw_
  std::vector<char> buffer_;      ///< decompressed ones
  std::uint64_t size_on_disk_ = 0;
  std::uint64_t raw_read_ = 0;
  std::uint64_t read_ = 0;  ///< decompressed bytes
};

}  // namespace levin
