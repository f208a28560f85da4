// JPEG by libjpeg-turbo: parts of an image, and images at a half, a quarter or an eighth of their size, cost less than whole
// ones.
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include "levin/images/codecs/formats.h"

namespace levin::codecs {
namespace {

/// libjpeg's state. Errors leave its functions by longjmp, so that what calls them has no object of C++ on its stack.
struct Decompressor {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf on_error{};
  std::array<char, JMSG_LENGTH_MAX> text{};

  explicit Decompressor(std::span<const std::byte> file) {
    jpeg.err = jpeg_std_error(&errors);
    jpeg.client_data = this;
    errors.error_exit = [](j_common_ptr common) {
      auto* const self = static_cast<Decompressor*>(common->client_data);
      common->err->format_message(common, self->text.data());
      std::longjmp(self->on_error, 1);
    };
    // A file that ends early gets grey pixels otherwise. What else libjpeg warns of, it repairs, as other programs do.
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF) common->err->error_exit(common);
    };
    errors.output_message = [](j_common_ptr) {};
    if (setjmp(on_error) != 0) fail();
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
    jpeg_save_markers(&jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&jpeg, TRUE);
  }
  ~Decompressor() { jpeg_destroy_decompress(&jpeg); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  [[noreturn]] void fail() {
    const std::string reason = std::string("is a damaged JPEG file: ") + text.data();
    jpeg_destroy_decompress(&jpeg);
    throw std::runtime_error(reason);
  }
};

/// CMYK files of Adobe hold inverted values.
void to_rgb(const JSAMPLE* cmyk, std::uint32_t width, JSAMPLE* rgb) {
  for (std::uint32_t pixel = 0; pixel < width; ++pixel, cmyk += 4, rgb += 3) {
    for (int channel = 0; channel < 3; ++channel) {
      const int product = cmyk[channel] * cmyk[3] + 128;
      rgb[channel] = static_cast<JSAMPLE>((product + (product >> 8)) >> 8);
    }
  }
}

/// Rows of an image's part. `row` has room for one of the whole image, and `rgb` for one in three channels.
void read_rows(Decompressor& reader, const ImageRequest& request, JSAMPLE* row, JSAMPLE* rgb, JSAMPLE* pixels) {
  jpeg_decompress_struct& jpeg = reader.jpeg;
  if (setjmp(reader.on_error) != 0) reader.fail();
  const bool is_cmyk = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = is_cmyk                 ? JCS_CMYK
                         : request.channels == 1 ? JCS_GRAYSCALE
                         : request.channels == 3 ? JCS_RGB
                                                 : JCS_EXT_RGBA;
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(request.reduction);
  jpeg_start_decompress(&jpeg);
  // Colors have a lower resolution than brightness, and are interpolated with their neighbours beyond the part's borders.
  const JDIMENSION margin = 32;
  JDIMENSION left = request.left > margin ? request.left - margin : 0;
  const JDIMENSION right = request.left + request.width + margin;
  JDIMENSION width = (right < jpeg.output_width ? right : jpeg.output_width) - left;
  if (left > 0 || width < jpeg.output_width) jpeg_crop_scanline(&jpeg, &left, &width);
  const JDIMENSION first = request.top > margin ? request.top - margin : 0;
  if (first > 0) jpeg_skip_scanlines(&jpeg, first);
  const auto values = static_cast<std::size_t>(request.width) * static_cast<std::size_t>(request.channels);
  for (JDIMENSION line = first; line < request.top + request.height; ++line) {
    jpeg_read_scanlines(&jpeg, &row, 1);
    if (line < request.top) continue;
    const auto* from = row + static_cast<std::size_t>(request.left - left) * static_cast<std::size_t>(jpeg.output_components);
    JSAMPLE* const to = pixels + (line - request.top) * values;
    if (is_cmyk) {
      to_rgb(from, request.width, rgb);
      convert_row(rgb, 3, request.width, request.channels, to);
    } else {
      std::memcpy(to, from, values);
    }
  }
}

ImageInfo info(std::span<const std::byte> file) {
  const Decompressor reader(file);
  ImageInfo info{.format = "JPEG", .width = reader.jpeg.image_width, .height = reader.jpeg.image_height};
  info.channels = reader.jpeg.num_components == 1 ? 1 : 3;
  for (const jpeg_marker_struct* marker = reader.jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const std::span data(reinterpret_cast<const std::byte*>(marker->data), marker->data_length);
    constexpr std::string_view kExif("Exif\0\0", 6);
    if (marker->marker == JPEG_APP0 + 1 && has_bytes(data, 0, kExif))
      info.orientation = exif_orientation(data.subspan(kExif.size()));
  }
  return info;
}

void decode(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels) {
  Decompressor reader(file);
  const std::size_t width = reader.jpeg.image_width;
  std::vector<JSAMPLE> row(width * 4), rgb(width * 3);
  if (request.bits == 8) return read_rows(reader, request, row.data(), rgb.data(), reinterpret_cast<JSAMPLE*>(pixels));
  Pixels part{.width = request.width, .height = request.height, .channels = request.channels, .values = {}};
  part.values.resize(std::size_t{request.width} * request.height * static_cast<std::size_t>(request.channels));
  read_rows(reader, request, row.data(), rgb.data(), reinterpret_cast<JSAMPLE*>(part.values.data()));
  ImageRequest whole = request;
  whole.left = whole.top = 0;
  take(part, whole, pixels);
}

}  // namespace

const Format kJpeg = {.is_one = [](std::span<const std::byte> file) { return has_bytes(file, 0, "\xFF\xD8\xFF"); },
                      .info = info,
                      .decode = decode};

}  // namespace levin::codecs
