// BMP, which no packaged library reads: uncompressed, of 1, 4, 8, 24 and 32 bits a pixel.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "levin/images/codecs/formats.h"

namespace levin::codecs {
namespace {

[[noreturn]] void fail(const std::string& reason) { throw std::runtime_error("is a BMP file that cannot be read: " + reason); }

std::uint32_t number(std::span<const std::byte> file, std::size_t at, std::size_t bytes) {
  if (at > file.size() || file.size() - at < bytes) fail("it ends too early");
  std::uint32_t value = 0;
  for (std::size_t byte = bytes; byte-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(file[at + byte]);
  return value;
}

/// What stands before the pixels.
struct Head {
  std::size_t pixels_at = 0;  ///< in the file
  std::uint32_t width = 0, height = 0;
  bool is_top_down = false;
  std::uint32_t bits = 0;  ///< of a pixel
  bool has_alpha = false;
  std::array<std::uint32_t, 4> places = {2, 1, 0, 3};  ///< of red, green, blue and alpha among the bytes of a pixel
  std::size_t palette_at = 0, palette_entry = 4;
  std::uint32_t palette_size = 0;
};

std::uint32_t place_of(std::uint32_t mask) {
  for (std::uint32_t place = 0; place < 4; ++place) {
    if (mask == 0xFFU << (8 * place)) return place;
  }
  fail("its colors are not of 8 bits");
}

void read_masks(std::span<const std::byte> file, Head& head) {
  constexpr std::size_t kMasks = 14 + 40;
  if (head.bits != 32) fail("its colors are not of 8 bits");
  for (std::size_t color = 0; color < 3; ++color) head.places[color] = place_of(number(file, kMasks + 4 * color, 4));
  const bool has_mask_of_alpha = number(file, 14, 4) >= 56;
  const std::uint32_t alpha = has_mask_of_alpha ? number(file, kMasks + 12, 4) : 0;
  head.has_alpha = alpha != 0;
  if (head.has_alpha) head.places[3] = place_of(alpha);
}

Head read_head(std::span<const std::byte> file) {
  Head head;
  head.pixels_at = number(file, 10, 4);
  const std::uint32_t size = number(file, 14, 4);
  std::uint32_t compression = 0, used_colors = 0;
  if (size == 12) {
    head.width = number(file, 18, 2);
    head.height = number(file, 20, 2);
    head.bits = number(file, 24, 2);
    head.palette_entry = 3;
  } else if (size >= 40) {
    head.width = number(file, 18, 4);
    const auto height = static_cast<std::int32_t>(number(file, 22, 4));
    head.is_top_down = height < 0;
    head.height = height < 0 ? 0U - static_cast<std::uint32_t>(height) : static_cast<std::uint32_t>(height);
    head.bits = number(file, 28, 2);
    compression = number(file, 30, 4);
    used_colors = number(file, 46, 4);
  } else {
    fail("its header is of an unknown kind");
  }
  constexpr std::uint32_t kMasks = 3;
  if (compression != 0 && compression != kMasks) fail("it is compressed");
  if (head.width == 0 || head.height == 0 || head.width > 1U << 30 || head.height > 1U << 30) fail("it has no size");
  if (head.bits != 1 && head.bits != 4 && head.bits != 8 && head.bits != 24 && head.bits != 32)
    fail("it has an unknown number of bits");
  if (compression == kMasks) read_masks(file, head);
  if (head.bits <= 8) {
    head.palette_at = 14 + std::size_t{size};
    head.palette_size = used_colors == 0 ? 1U << head.bits : used_colors;
    if (head.palette_size > 1U << head.bits) fail("its palette is too large");
    number(file, head.palette_at + head.palette_size * head.palette_entry - 1, 1);
  }
  return head;
}

std::size_t row_bytes_of(const Head& head) { return (std::size_t{head.width} * head.bits + 31) / 32 * 4; }

ImageInfo info(std::span<const std::byte> file) {
  const Head head = read_head(file);
  return {.format = "BMP", .width = head.width, .height = head.height, .channels = head.has_alpha ? 4 : 3, .bits = 8};
}

void decode_row(std::span<const std::byte> file, const Head& head, const std::byte* row, std::byte* to, int channels) {
  const std::size_t pixel_bytes = head.bits / 8;
  for (std::uint32_t pixel = 0; pixel < head.width; ++pixel, to += channels) {
    if (head.bits > 8) {
      for (int color = 0; color < channels; ++color)
        to[color] = row[pixel * pixel_bytes + head.places[static_cast<std::size_t>(color)]];
      continue;
    }
    const std::size_t bit = std::size_t{pixel} * head.bits;
    const unsigned byte = std::to_integer<unsigned>(row[bit / 8]);
    const unsigned index = byte >> (8 - head.bits - bit % 8) & ((1U << head.bits) - 1);
    if (index >= head.palette_size) fail("a pixel has no color");
    const std::byte* entry = file.data() + head.palette_at + index * head.palette_entry;
    for (int color = 0; color < 3; ++color) to[color] = entry[2 - color];
  }
}

void decode(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels) {
  const Head head = read_head(file);
  const std::size_t row_bytes = row_bytes_of(head);
  if (head.pixels_at > file.size() || (file.size() - head.pixels_at) / row_bytes < head.height) fail("it ends too early");
  Pixels image{.width = head.width, .height = request.height, .channels = head.has_alpha ? 4 : 3, .values = {}};
  const std::size_t to_bytes = std::size_t{head.width} * static_cast<std::size_t>(image.channels);
  image.values.resize(to_bytes * request.height);
  for (std::uint32_t line = 0; line < request.height; ++line) {
    const std::uint32_t from_top = request.top + line;
    const std::uint32_t stored = head.is_top_down ? from_top : head.height - 1 - from_top;
    decode_row(file, head, file.data() + head.pixels_at + stored * row_bytes, image.values.data() + line * to_bytes,
               image.channels);
  }
  ImageRequest part = request;
  part.top = 0;
  take(image, part, pixels);
}

}  // namespace

const Format kBmp = {
    .is_one = [](std::span<const std::byte> file) { return has_bytes(file, 0, "BM"); }, .info = info, .decode = decode};

}  // namespace levin::codecs
