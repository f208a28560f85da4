#include "levin/data/zstd/coders.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <stdexcept>

namespace levin {
namespace {

/// A result of zstd's that is no error.
std::size_t checked(std::size_t result) {
  if (ZSTD_isError(result) == 0) return result;
  if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
    // The bound is zstd's own, of what a file may make its reader hold in memory.
    throw std::runtime_error("it needs more than 128 MiB of memory to decompress: compress it without --ultra and --long");
  }
  throw std::runtime_error(ZSTD_getErrorName(result));
}

class ZstdDecoder final : public StreamDecoder {
 public:
  ZstdDecoder() {
    if (!context_) throw std::bad_alloc();
  }
  CoderStep decode(std::span<const char> from, std::span<char> to) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const std::size_t wanted = checked(ZSTD_decompressStream(context_.get(), &out, &in));
    // Between two parts zstd asks for the header of the next, having taken and made nothing.
    if (in.pos > 0 || out.pos > 0) is_whole_ = wanted == 0;
    return {.taken = in.pos, .made = out.pos};
  }
  bool is_whole() const override { return is_whole_; }

 private:
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_{ZSTD_createDCtx(), &ZSTD_freeDCtx};
  bool is_whole_ = false;
};

class ZstdEncoder final : public StreamEncoder {
 public:
  ZstdEncoder() {
    if (!context_) throw std::bad_alloc();
    checked(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1));
  }
  std::string encode(std::span<const char> content) override { return run(content, ZSTD_e_continue); }
  std::string finish() override { return run({}, ZSTD_e_end); }

 private:
  std::string run(std::span<const char> content, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{content.data(), content.size(), 0};
    std::string file;
    while (true) {
      ZSTD_outBuffer out{piece_.data(), piece_.size(), 0};
      const std::size_t left = checked(ZSTD_compressStream2(context_.get(), &out, &in, directive));
      file.append(piece_.data(), out.pos);
      if (directive == ZSTD_e_end ? left == 0 : in.pos == in.size) return file;
    }
  }

  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_{ZSTD_createCCtx(), &ZSTD_freeCCtx};
  std::string piece_ = std::string(ZSTD_CStreamOutSize(), '\0');
};

}  // namespace
}  // namespace levin

const levin::ZstdStreams* levin_zstd_streams() {
  static constexpr levin::ZstdStreams kStreams{
      .make_decoder = []() -> std::unique_ptr<levin::StreamDecoder> { return std::make_unique<levin::ZstdDecoder>(); },
      .make_encoder = []() -> std::unique_ptr<levin::StreamEncoder> { return std::make_unique<levin::ZstdEncoder>(); }};
  return &kStreams;
}
