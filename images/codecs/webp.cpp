// WebP by libwebp: its first image, if it is an animation that libwebp can read so.
#include <webp/decode.h>

#include <stdexcept>
#include <string>

#include "levin/images/codecs/formats.h"

namespace levin::codecs {
namespace {

const std::uint8_t* bytes_of(std::span<const std::byte> file) { return reinterpret_cast<const std::uint8_t*>(file.data()); }

std::uint32_t number(std::span<const std::byte> file, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t byte = 4; byte-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(file[at + byte]);
  return value;
}

/// The content of the chunk "EXIF" of a RIFF file; empty without one.
std::span<const std::byte> exif_of(std::span<const std::byte> file) {
  constexpr std::size_t kHead = 8;
  for (std::size_t at = 12; at + kHead <= file.size();) {
    const std::size_t bytes = number(file, at + 4);
    const std::span rest = file.subspan(at + kHead);
    if (bytes > rest.size()) break;
    if (has_bytes(file, at, "EXIF")) {
      const std::span content = rest.first(bytes);
      return has_bytes(content, 0, std::string_view("Exif\0\0", 6)) ? content.subspan(6) : content;
    }
    at += kHead + bytes + bytes % 2;
  }
  return {};
}

ImageInfo info(std::span<const std::byte> file) {
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(bytes_of(file), file.size(), &features) != VP8_STATUS_OK)
    throw std::runtime_error("is a damaged WebP file");
  if (features.has_animation != 0) throw std::runtime_error("is an animated WebP file, which has no single image");
  return {.format = "WebP",
          .width = static_cast<std::uint32_t>(features.width),
          .height = static_cast<std::uint32_t>(features.height),
          .channels = features.has_alpha != 0 ? 4 : 3,
          .bits = 8,
          .orientation = exif_orientation(exif_of(file))};
}

void decode(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels) {
  const ImageInfo image = info(file);
  Pixels whole{.width = image.width, .height = image.height, .channels = request.channels == 4 ? 4 : 3, .values = {}};
  const std::size_t row_bytes = std::size_t{image.width} * static_cast<std::size_t>(whole.channels);
  whole.values.resize(row_bytes * image.height);
  auto* const to = reinterpret_cast<std::uint8_t*>(whole.values.data());
  const auto decode_into = whole.channels == 4 ? &WebPDecodeRGBAInto : &WebPDecodeRGBInto;
  if (decode_into(bytes_of(file), file.size(), to, whole.values.size(), static_cast<int>(row_bytes)) == nullptr) {
    throw std::runtime_error("is a damaged WebP file");
  }
  take(whole, request, pixels);
}

}  // namespace

const Format kWebp = {
    .is_one = [](std::span<const std::byte> file) { return has_bytes(file, 0, "RIFF") && has_bytes(file, 8, "WEBP"); },
    .info = info,
    .decode = decode};

}  // namespace levin::codecs
