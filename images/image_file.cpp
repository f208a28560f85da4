#include "levin/images/image_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/optional_library.h"
#include "levin/data/read_file.h"
#include "levin/images/codecs/image_codecs.h"

namespace levin {
namespace {

const OptionalLibrary kCodecs({.file = "liblevin_images.so",
                               .entry = "levin_image_codecs",
                               .title = "image files",
                               .contents = "JPEG, PNG, WebP and BMP",
                               .build_packages = "libjpeg62-turbo-dev libpng-dev libwebp-dev",
                               .run_packages = "libjpeg62-turbo libpng16-16 libwebp7"});

const ImageCodecs& codecs() {
  static const ImageCodecs* const codecs = kCodecs.entry<decltype(levin_image_codecs)>()();
  return *codecs;
}

/// What EXIF's orientations do to a stored image: the last four exchange rows and columns first.
struct Turn {
  bool transposes, flips_rows, flips_columns;
};
Turn turn_of(int orientation) {
  constexpr std::array<Turn, 9> kTurns = {{{false, false, false},
                                           {false, false, false},
                                           {false, false, true},
                                           {false, true, true},
                                           {false, true, false},
                                           {true, false, false},
                                           {true, false, true},
                                           {true, true, true},
                                           {true, true, false}}};
  return kTurns[static_cast<std::size_t>(orientation)];
}

std::int64_t divided_up(std::int64_t number, std::int64_t divisor) { return (number + divisor - 1) / divisor; }

/// The largest reduction that leaves a part as many pixels as are wanted.
int reduction_for(const ImageView& view) {
  for (const int reduction : {8, 4, 2}) {
    if (view.area[0] >= view.size[0] * reduction && view.area[1] >= view.size[1] * reduction) return reduction;
  }
  return 1;
}

}  // namespace

ImageFile::ImageFile(const std::filesystem::path& file, const ImageReading& reading)
    : ImageFile(read_input_file(file), file.string(), reading) {}

ImageFile::ImageFile(std::string bytes, std::string name, const ImageReading& reading)
    : bytes_(std::move(bytes)), name_(std::move(name)), reading_(reading) {
  if (reading_.channels != 1 && reading_.channels != 3 && reading_.channels != 4) {
    throw MisuseError(format("channels of images are 1, 3 or 4, not {}", reading_.channels));
  }
  if (reading_.bits != 8 && reading_.bits != 16) throw MisuseError(format("bits of images are 8 or 16, not {}", reading_.bits));
  ImageInfo info;
  try {
    info = codecs().info(std::as_bytes(std::span(bytes_)));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(error.what());
  }
  kind_ = info.format;
  stored_ = {info.height, info.width};
  if (stored_[0] <= 0 || stored_[1] <= 0) fail("has no pixels");
  if (stored_[0] > reading_.max_pixels / stored_[1]) {
    fail(format("has {} x {} pixels, and max_pixels is {}", stored_[1], stored_[0], reading_.max_pixels));
  }
  orientation_ = reading_.exif_orientation ? info.orientation : 1;
  size_ = stored_;
  if (turn_of(orientation_).transposes) std::swap(size_[0], size_[1]);
}

void ImageFile::fail(const std::string& reason) const { throw IoError(format("'{}' {}", name_, reason)); }

at::Tensor ImageFile::read() const { return decode(0, 0, size_, 1); }

at::Tensor ImageFile::read(const ImageView& view) const {
  if (view.top < 0 || view.left < 0 || view.area[0] < 1 || view.area[1] < 1 || view.top + view.area[0] > size_[0] ||
      view.left + view.area[1] > size_[1]) {
    throw MisuseError(format("'{}' is of {} x {} pixels, and {} x {} from ({}, {}) on are wanted", name_, size_[1], size_[0],
                             view.area[1], view.area[0], view.left, view.top));
  }
  const bool is_jpeg = std::string_view(kind_) == "JPEG";
  const int reduction = view.at_reduced_size && is_jpeg ? reduction_for(view) : 1;
  const images::Size reduced = {divided_up(size_[0], reduction), divided_up(size_[1], reduction)};
  const images::Size area = {std::max<std::int64_t>(view.area[0] / reduction, 1),
                             std::max<std::int64_t>(view.area[1] / reduction, 1)};
  const std::int64_t top = std::min(view.top / reduction, reduced[0] - area[0]);
  const std::int64_t left = std::min(view.left / reduction, reduced[1] - area[1]);
  return images::resize(decode(top, left, area, reduction), view.size, view.interpolation);
}

/// The part of the turned image, in the pixels of the reduced one.
at::Tensor ImageFile::decode(std::int64_t top, std::int64_t left, images::Size area, int reduction) const {
  const Turn turn = turn_of(orientation_);
  images::Size place = {top, left};
  if (turn.transposes) {
    std::swap(place[0], place[1]);
    std::swap(area[0], area[1]);
  }
  // What is flipped is counted from the other side. Rows of the turned image are the stored one's columns where it is
  // transposed.
  const std::array<bool, 2> flips =
      turn.transposes ? std::array{turn.flips_columns, turn.flips_rows} : std::array{turn.flips_rows, turn.flips_columns};
  for (const std::size_t side : {0U, 1U}) {
    if (flips[side]) place[side] = divided_up(stored_[side], reduction) - place[side] - area[side];
  }
  const bool is_wide = reading_.bits == 16;
  at::Tensor pixels = at::empty({area[0], area[1], reading_.channels}, is_wide ? at::kUInt16 : at::kByte);
  const ImageRequest request = {.channels = static_cast<int>(reading_.channels),
                                .bits = static_cast<int>(reading_.bits),
                                .reduction = reduction,
                                .left = static_cast<std::uint32_t>(place[1]),
                                .top = static_cast<std::uint32_t>(place[0]),
                                .width = static_cast<std::uint32_t>(area[1]),
                                .height = static_cast<std::uint32_t>(area[0])};
  try {
    codecs().decode(std::as_bytes(std::span(bytes_)), request, static_cast<std::byte*>(pixels.mutable_data_ptr()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(error.what());
  }
  if (is_wide) pixels = pixels.to(at::kFloat).div_(65535);
  if (turn.transposes) pixels = pixels.transpose(0, 1);
  if (turn.flips_rows) pixels = pixels.flip(0);
  if (turn.flips_columns) pixels = pixels.flip(1);
  return pixels.permute({2, 0, 1});
}

at::Tensor read_image(const std::filesystem::path& file, const ImageReading& reading) {
  return ImageFile(file, reading).read();
}

}  // namespace levin
