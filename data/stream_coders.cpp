#include "levin/data/stream_coders.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "levin/core/base/optional_library.h"

namespace levin {
namespace {

const OptionalLibrary kZstd({.file = "liblevin_zstd.so",
                             .entry = "levin_zstd_streams",
                             .title = "zstd files",
                             .contents = "zstd",
                             .build_packages = "libzstd-dev",
                             .run_packages = "libzstd1"});

constexpr std::string_view kGzipMark = "\x1f\x8b";
constexpr int kGzipWindow = 15 + 16;  // bits of zlib's largest window, and a gzip file around it

uInt length_for_zlib(std::size_t length) {
  return static_cast<uInt>(std::min<std::size_t>(length, std::numeric_limits<uInt>::max()));
}
/// zlib's functions take their input as if they wrote to it.
Bytef* bytes_for_zlib(const char* bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes)); }

class GzipDecoder final : public StreamDecoder {
 public:
  GzipDecoder() {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

  CoderStep decode(std::span<const char> from, std::span<char> to) override {
    if (is_whole_) {
      // Another part may follow. What is none is passed over, as gzip does: tapes end in zeros.
      if (!is_behind_ && from.size() < kGzipMark.size()) return {};
      if (is_behind_ || !std::equal(kGzipMark.begin(), kGzipMark.end(), from.begin())) {
        is_behind_ = true;
        return {.taken = from.size(), .made = 0};
      }
      inflateReset(&stream_);
      is_whole_ = false;
    }
    stream_.next_in = bytes_for_zlib(from.data());
    stream_.avail_in = length_for_zlib(from.size());
    stream_.next_out = bytes_for_zlib(to.data());
    stream_.avail_out = length_for_zlib(to.size());
    const uInt given = stream_.avail_in, room = stream_.avail_out;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      throw std::runtime_error(stream_.msg != nullptr ? stream_.msg : "the compressed data is damaged");
    is_whole_ = code == Z_STREAM_END;
    return {.taken = given - stream_.avail_in, .made = room - stream_.avail_out};
  }
  bool is_whole() const override { return is_whole_; }

 private:
  z_stream stream_{};
  bool is_whole_ = false;
  bool is_behind_ = false;  ///< the last part
};

class GzipEncoder final : public StreamEncoder {
 public:
  GzipEncoder() {
    constexpr int kMemoryLevel = 8;  // zlib's usual one
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~GzipEncoder() override { deflateEnd(&stream_); }

  std::string encode(std::span<const char> content) override {
    std::string file;
    while (!content.empty()) {
      const std::span<const char> part = content.first(length_for_zlib(content.size()));
      run(part, Z_NO_FLUSH, file);
      content = content.subspan(part.size());
    }
    return file;
  }
  std::string finish() override {
    std::string file;
    run({}, Z_FINISH, file);
    return file;
  }

 private:
  void run(std::span<const char> content, int flush, std::string& file) {
    stream_.next_in = bytes_for_zlib(content.data());
    stream_.avail_in = length_for_zlib(content.size());
    do {
      stream_.next_out = bytes_for_zlib(piece_.data());
      stream_.avail_out = length_for_zlib(piece_.size());
      deflate(&stream_, flush);
      file.append(piece_.data(), piece_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  z_stream stream_{};
  std::string piece_ = std::string(1U << 16U, '\0');
};

}  // namespace

Compression compression_of(std::span<const char> begin) {
  const std::string_view bytes(begin.data(), begin.size());
  if (bytes.starts_with(kGzipMark)) return Compression::kGzip;
  // A frame, or one to pass over, which some writers put first.
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  const bool is_passed_over =
      bytes.size() >= kCompressionMark && (bytes[0] & 0xf0) == 0x50 && bytes.substr(1, 3) == "\x2a\x4d\x18";
  return is_passed_over ? Compression::kZstd : Compression::kNone;
}

Compression compression_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return Compression::kNone;  // to open a pipe would wait for its writer
  std::array<char, kCompressionMark> begin{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), begin.size());
  return compression_of(std::span<const char>(begin).first(static_cast<std::size_t>(stream.gcount())));
}

std::unique_ptr<StreamDecoder> make_decoder(Compression compression) {
  if (compression == Compression::kGzip) return std::make_unique<GzipDecoder>();
  return kZstd.entry<decltype(levin_zstd_streams)>()()->make_decoder();
}

std::unique_ptr<StreamEncoder> make_encoder(Compression compression) {
  if (compression == Compression::kNone) return nullptr;
  if (compression == Compression::kGzip) return std::make_unique<GzipEncoder>();
  return kZstd.entry<decltype(levin_zstd_streams)>()()->make_encoder();
}

}  // namespace levin
