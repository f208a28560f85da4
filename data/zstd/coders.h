#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace levin {

/// How far a coder came with what it was given.
struct CoderStep {
  std::size_t taken = 0;  ///< bytes
  std::size_t made = 0;   ///< bytes
};

/// Decompresses one file: several parts in it, one behind the other, are one content. Threading: one at a time.
class StreamDecoder {
 public:
  StreamDecoder() = default;
  virtual ~StreamDecoder() = default;
  StreamDecoder(const StreamDecoder&) = delete;
  StreamDecoder& operator=(const StreamDecoder&) = delete;

  /// Takes bytes of the file, and makes bytes of the content: some, where there are some to take. Throws std::runtime_error
  /// with what is wrong with the file.
  virtual CoderStep decode(std::span<const char> from, std::span<char> to) = 0;
  /// True where the file may end.
  virtual bool is_whole() const = 0;
};

/// Compresses one file. Threading: one at a time.
class StreamEncoder {
 public:
  StreamEncoder() = default;
  virtual ~StreamEncoder() = default;
  StreamEncoder(const StreamEncoder&) = delete;
  StreamEncoder& operator=(const StreamEncoder&) = delete;

  /// The bytes of the file that are ready after these of the content. Throws std::runtime_error.
  virtual std::string encode(std::span<const char> content) = 0;
  /// The rest of the file. Called: once, as the last.
  virtual std::string finish() = 0;
};

/// What reads and writes zstd: liblevin_zstd.so.
struct ZstdStreams {
  std::unique_ptr<StreamDecoder> (*make_decoder)();
  std::unique_ptr<StreamEncoder> (*make_encoder)();
};

}  // namespace levin

extern "C" __attribute__((visibility("default"))) const levin::ZstdStreams* levin_zstd_streams();
