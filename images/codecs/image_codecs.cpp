#include "levin/images/codecs/image_codecs.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "levin/images/codecs/formats.h"

namespace levin::codecs {

bool has_bytes(std::span<const std::byte> file, std::size_t offset, std::string_view bytes) {
  return file.size() >= offset + bytes.size() && std::memcmp(file.data() + offset, bytes.data(), bytes.size()) == 0;
}

int exif_orientation(std::span<const std::byte> exif) {
  if (exif.size() < 8) return 1;
  const bool is_little = has_bytes(exif, 0, "II");
  if (!is_little && !has_bytes(exif, 0, "MM")) return 1;
  const auto number = [&](std::size_t at, int bytes) -> std::size_t {
    if (at > exif.size() || exif.size() - at < static_cast<std::size_t>(bytes)) return 0;
    std::size_t value = 0;
    for (int index = 0; index < bytes; ++index) {
      const int place = is_little ? bytes - 1 - index : index;
      value = value << 8 | std::to_integer<std::size_t>(exif[at + static_cast<std::size_t>(place)]);
    }
    return value;
  };
  constexpr std::size_t kOrientation = 0x0112, kEntryBytes = 12;
  const std::size_t directory = number(4, 4);
  const std::size_t entries = number(directory, 2);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const std::size_t at = directory + 2 + entry * kEntryBytes;
    if (at > exif.size()) break;
    if (number(at, 2) != kOrientation) continue;
    const std::size_t value = number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

namespace {

template <class Value>
Value grey_of(const Value* color) {
  // Pillow's fixed-point numbers.
  const std::uint64_t sum =
      19595U * std::uint64_t{color[0]} + 38470U * std::uint64_t{color[1]} + 7471U * std::uint64_t{color[2]};
  return static_cast<Value>((sum + 0x8000) >> 16);
}

}  // namespace

template <class Value>
void convert_row(const Value* row, int channels, std::uint32_t width, int wanted, Value* to) {
  constexpr Value kOpaque = static_cast<Value>(-1);
  for (std::uint32_t pixel = 0; pixel < width; ++pixel, row += channels, to += wanted) {
    const bool is_grey = channels < 3;
    if (wanted == 1) {
      to[0] = is_grey ? row[0] : grey_of(row);
      continue;
    }
    for (int channel = 0; channel < 3; ++channel) to[channel] = row[is_grey ? 0 : channel];
    if (wanted == 4) to[3] = channels % 2 == 0 ? row[channels - 1] : kOpaque;
  }
}
template void convert_row(const std::uint8_t*, int, std::uint32_t, int, std::uint8_t*);
template void convert_row(const std::uint16_t*, int, std::uint32_t, int, std::uint16_t*);

void take(const Pixels& image, const ImageRequest& request, std::byte* pixels) {
  const std::size_t values = std::size_t{request.width} * static_cast<std::size_t>(request.channels);
  std::vector<std::uint8_t> row(values);
  for (std::uint32_t line = 0; line < request.height; ++line) {
    const std::size_t at =
        (std::size_t{request.top + line} * image.width + request.left) * static_cast<std::size_t>(image.channels);
    const auto* from = reinterpret_cast<const std::uint8_t*>(image.values.data()) + at;
    if (request.bits == 8) {
      convert_row(from, image.channels, request.width, request.channels,
                  reinterpret_cast<std::uint8_t*>(pixels) + line * values);
      continue;
    }
    convert_row(from, image.channels, request.width, request.channels, row.data());
    auto* to = reinterpret_cast<std::uint16_t*>(pixels) + line * values;
    for (std::size_t value = 0; value < values; ++value) to[value] = static_cast<std::uint16_t>(row[value] * 257);
  }
}

namespace {

const Format& format_of(std::span<const std::byte> file) {
  for (const Format* format : {&kJpeg, &kPng, &kWebp, &kBmp}) {
    if (format->is_one(file)) return *format;
  }
  if (file.empty()) throw std::runtime_error("is empty");
  throw std::runtime_error("is no JPEG, PNG, WebP or BMP file");
}

ImageInfo info(std::span<const std::byte> file) { return format_of(file).info(file); }

void decode(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels) {
  format_of(file).decode(file, request, pixels);
}

constexpr ImageCodecs kCodecs = {.info = info, .decode = decode};

}  // namespace
}  // namespace levin::codecs

extern "C" const levin::ImageCodecs* levin_image_codecs() { return &levin::codecs::kCodecs; }
