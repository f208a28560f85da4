// PNG by libpng.
#include <png.h>

#include <array>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "levin/images/codecs/formats.h"

namespace levin::codecs {
namespace {

/// libpng's state. Errors leave its functions by longjmp, so that what calls them has no object of C++ on its stack.
struct Reader {
  std::span<const std::byte> rest;
  std::array<char, 200> text{};
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Reader(std::span<const std::byte> file) : rest(file) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info = png == nullptr ? nullptr : png_create_info_struct(png);
    if (info == nullptr) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw std::runtime_error("cannot be read: libpng of another version");
    }
    if (setjmp(png_jmpbuf(png)) != 0) fail();
    png_set_read_fn(png, this, [](png_structp of, png_bytep to, size_t bytes) {
      auto* const self = static_cast<Reader*>(png_get_io_ptr(of));
      if (bytes > self->rest.size()) png_error(of, "it ends too early");
      std::memcpy(to, self->rest.data(), bytes);
      self->rest = self->rest.subspan(bytes);
    });
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
    png_read_info(png, info);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[noreturn]] static void on_error(png_structp of, png_const_charp message) {
    auto* const self = static_cast<Reader*>(png_get_error_ptr(of));
    std::strncpy(self->text.data(), message, self->text.size() - 1);
    png_longjmp(of, 1);
  }
  [[noreturn]] void fail() {
    png_destroy_read_struct(&png, &info, nullptr);
    throw std::runtime_error(std::string("is a damaged PNG file: ") + text.data());
  }
};

/// Prepares rows with 8 or 16 bits, without palettes. Gives their channels.
int prepare_rows(Reader& reader, int bits) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) reader.fail();
  png_set_expand(reader.png);
  if (bits == 8) png_set_scale_16(reader.png);
  if (bits == 16) {
    png_set_expand_16(reader.png);
    if constexpr (std::endian::native == std::endian::little) png_set_swap(reader.png);
  }
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return png_get_channels(reader.png, reader.info);
}

void read_all(Reader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) reader.fail();
  png_read_image(reader.png, rows);
}

ImageInfo info(std::span<const std::byte> file) {
  Reader reader(file);
  ImageInfo info{.format = "PNG",
                 .width = png_get_image_width(reader.png, reader.info),
                 .height = png_get_image_height(reader.png, reader.info)};
  const int type = png_get_color_type(reader.png, reader.info);
  const bool has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(reader.png, reader.info, PNG_INFO_tRNS) != 0;
  info.channels = ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + (has_alpha ? 1 : 0);
  info.bits = png_get_bit_depth(reader.png, reader.info) == 16 ? 16 : 8;
  png_uint_32 bytes = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(reader.png, reader.info, &bytes, &exif) != 0) {
    info.orientation = exif_orientation({reinterpret_cast<const std::byte*>(exif), bytes});
  }
  return info;
}

template <class Value>
void decode_as(Reader& reader, const ImageRequest& request, std::byte* pixels) {
  const int channels = prepare_rows(reader, request.bits);
  const std::size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  const std::size_t height = png_get_image_height(reader.png, reader.info);
  std::vector<std::byte> image(row_bytes * height);
  std::vector<png_bytep> rows(height);
  for (std::size_t row = 0; row < height; ++row) rows[row] = reinterpret_cast<png_bytep>(image.data() + row * row_bytes);
  read_all(reader, rows.data());
  auto* to = reinterpret_cast<Value*>(pixels);
  for (std::uint32_t line = 0; line < request.height; ++line) {
    const auto* row = reinterpret_cast<const Value*>(rows[request.top + line]) +
                      std::size_t{request.left} * static_cast<std::size_t>(channels);
    convert_row(row, channels, request.width, request.channels, to);
    to += std::size_t{request.width} * static_cast<std::size_t>(request.channels);
  }
}

void decode(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels) {
  Reader reader(file);
  request.bits == 16 ? decode_as<std::uint16_t>(reader, request, pixels) : decode_as<std::uint8_t>(reader, request, pixels);
}

}  // namespace

const Format kPng = {.is_one = [](std::span<const std::byte> file) { return has_bytes(file, 0, "\x89PNG\r\n\x1A\n"); },
                     .info = info,
                     .decode = decode};

}  // namespace levin::codecs
