// An image file: its header, and a part of its pixels.
#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "fuzz/fuzz.h"
#include "levin/images/codecs/image_codecs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<std::runtime_error>(data, size, [](std::string_view input) {
    // What the reader is asked for is at the input's end, which formats pass over.
    levin::fuzz::Bytes wanted(input.substr(input.size() - std::min<std::size_t>(input.size(), 8)));
    const auto file = std::as_bytes(std::span(input));
    const levin::ImageInfo info = levin_image_codecs()->info(file);
    FUZZ_CHECK(info.orientation >= 1 && info.orientation <= 8, std::to_string(info.orientation));
    constexpr std::uint64_t kMostPixels = 1 << 22;
    if (info.width == 0 || info.height == 0 || std::uint64_t{info.width} * info.height > kMostPixels) return;
    levin::ImageRequest request;
    request.channels = std::array{1, 3, 4}[wanted.byte() % 3];
    request.bits = wanted.byte() % 2 == 0 ? 8 : 16;
    const bool is_jpeg = std::string_view(info.format) == "JPEG";
    request.reduction = is_jpeg ? 1 << wanted.byte() % 4 : 1;
    const auto reduced = [&](std::uint32_t side) {
      return (side + static_cast<std::uint32_t>(request.reduction) - 1) / static_cast<std::uint32_t>(request.reduction);
    };
    request.left = wanted.byte() % reduced(info.width);
    request.top = wanted.byte() % reduced(info.height);
    request.width = 1 + wanted.byte() % (reduced(info.width) - request.left);
    request.height = 1 + wanted.byte() % (reduced(info.height) - request.top);
    const std::size_t bytes =
        std::size_t{request.width} * request.height * static_cast<std::size_t>(request.channels * request.bits / 8);
    std::vector<std::byte> pixels(bytes);
    levin_image_codecs()->decode(file, request, pixels.data());
  });
}
