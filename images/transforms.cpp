#include "levin/images/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"

namespace levin {

images::Size ImageSides::square() const { return {front(), back()}; }

ImageSides OptionType<ImageSides>::read(const Value& value) {
  ImageSides sides;
  if (value.is_list()) {
    for (const std::int64_t side : OptionType<std::vector<std::int64_t>>::read(value)) sides.push_back(side);
  } else {
    sides.push_back(OptionType<std::int64_t>::read(value));
  }
  return sides;
}

Value OptionType<ImageSides>::write(const ImageSides& sides) {
  return sides.size() == 1 ? Value(sides.front()) : OptionType<std::vector<std::int64_t>>::write(sides);
}

Value OptionType<ImageSides>::schema() {
  return detail::any_of({OptionType<std::int64_t>::schema(), OptionType<std::vector<std::int64_t>>::schema()});
}

}  // namespace levin

namespace levin::images {

LEVIN_REGISTER_IMAGE_TRANSFORM(Resize, "The whole image, to a shorter side, or to [height, width]");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomResizedCrop, "A part at random, resized");
LEVIN_REGISTER_IMAGE_TRANSFORM(CenterCrop, "The middle of the image");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomCrop, "A part at random, of the padded image");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomHorizontalFlip, "Left and right exchanged at random");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomVerticalFlip, "Top and bottom exchanged at random");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomAffine, "Rotated, moved, scaled and sheared at random");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomRotation, "Rotated at random");
LEVIN_REGISTER_IMAGE_TRANSFORM(ColorJitter, "Another brightness, contrast, saturation and hue, at random");
LEVIN_REGISTER_IMAGE_TRANSFORM(Grayscale, "Grey");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomGrayscale, "Grey at random");
LEVIN_REGISTER_IMAGE_TRANSFORM(GaussianBlur, "Blurred, by a random amount");
LEVIN_REGISTER_IMAGE_TRANSFORM(RandomErasing, "An area at random gets one value: cutout");
LEVIN_REGISTER_IMAGE_TRANSFORM(Normalize, "Each channel less its mean, divided by its deviation");

namespace {

/// Two numbers in order, the first above `above` unless that is unset; or none, where that is permitted.
std::string why_no_range(const std::string& name, const std::vector<double>& range, std::optional<double> above,
                         bool may_be_empty) {
  if (may_be_empty && range.empty()) return "";
  const bool is_one = range.size() == 2 && range[0] <= range[1] && (!above || range[0] > *above);
  return is_one ? "" : format("{} is [from, to]{}", name, above ? format(", above {}", *above) : "");
}

template <class O>
void declare_size(OptionList<O>& options, const char* help) {
  options.add("size", &O::size, help).required();
  options.rule({"size"}, [](const O& given) {
    const bool is_one = (given.size.size() == 1 || given.size.size() == 2) &&
                        std::ranges::all_of(given.size, [](auto side) { return side > 0; });
    return is_one ? "" : "size is a number of pixels, or [height, width], above 0";
  });
}

template <class O>
void declare_pixels(OptionList<O>& options) {
  options.add("interpolation", &O::interpolation, "How pixels between pixels are computed");
  options.add("fill", &O::fill, "Value of what comes from outside: 0 to 255 for uint8, 0 to 1 for floats");
}

/// An area of a share of the image between scale[0] and scale[1], and a proportion between ratio[0] and ratio[1], with its
/// place; none after ten attempts that do not fit.
std::optional<ImageView> area_at_random(images::Size size, const std::vector<double>& scale, const std::vector<double>& ratio,
                                        Random& random) {
  const double pixels = static_cast<double>(size[0]) * static_cast<double>(size[1]);
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double area = pixels * uniform(random, scale[0], scale[1]);
    const double proportion = std::exp(uniform(random, std::log(ratio[0]), std::log(ratio[1])));
    const auto width = static_cast<std::int64_t>(std::llround(std::sqrt(area * proportion)));
    const auto height = static_cast<std::int64_t>(std::llround(std::sqrt(area / proportion)));
    if (width < 1 || height < 1 || width > size[1] || height > size[0]) continue;
    ImageView view{.area = {height, width}};
    view.top = uniform_int(random, 0, size[0] - height + 1);
    view.left = uniform_int(random, 0, size[1] - width + 1);
    return view;
  }
  return std::nullopt;
}

}  // namespace

void Resize::Options::declare(OptionList<Options>& options) {
  declare_size(options, "Pixels of the shorter side, or [height, width]");
  options.add("interpolation", &Options::interpolation, "How pixels between pixels are computed");
}
Resize::Resize(const Options& options) : options_(checked("Resize", options)) {}
ImageView Resize::view(images::Size size, Random&) const {
  const images::Size wanted =
      options_.size.size() == 1 ? images::size_with_shorter_side(size, options_.size.front()) : options_.size.square();
  return {.area = size, .size = wanted, .interpolation = options_.interpolation};
}

void RandomResizedCrop::Options::declare(OptionList<Options>& options) {
  declare_size(options, "Pixels of both sides, or [height, width]");
  options.add("scale", &Options::scale, "The part's share of the image's area: [from, to]");
  options.add("ratio", &Options::ratio, "The part's width by its height: [from, to]");
  options.add("interpolation", &Options::interpolation, "How pixels between pixels are computed");
  options.add("at_reduced_size", &Options::at_reduced_size, "Decode large JPEG files at a reduced size, which is faster");
  options.rule({"scale"}, [](const Options& given) { return why_no_range("scale", given.scale, 0.0, false); });
  options.rule({"ratio"}, [](const Options& given) { return why_no_range("ratio", given.ratio, 0.0, false); });
}
RandomResizedCrop::RandomResizedCrop(const Options& options) : options_(checked("RandomResizedCrop", options)) {}
ImageView RandomResizedCrop::view(images::Size size, Random& random) const {
  std::optional<ImageView> found = area_at_random(size, options_.scale, options_.ratio, random);
  if (!found) {
    // The middle, in the nearest proportion.
    const double height = static_cast<double>(size[0]), width = static_cast<double>(size[1]);
    const double proportion = std::clamp(width / height, options_.ratio[0], options_.ratio[1]);
    found = ImageView{.area = {std::min(size[0], static_cast<std::int64_t>(std::llround(width / proportion))),
                               std::min(size[1], static_cast<std::int64_t>(std::llround(height * proportion)))}};
    found->top = (size[0] - found->area[0]) / 2;
    found->left = (size[1] - found->area[1]) / 2;
  }
  found->size = options_.size.square();
  found->interpolation = options_.interpolation;
  found->at_reduced_size = options_.at_reduced_size;
  return *found;
}

void CenterCrop::Options::declare(OptionList<Options>& options) {
  declare_size(options, "Pixels of both sides, or [height, width]");
}
CenterCrop::CenterCrop(const Options& options) : options_(checked("CenterCrop", options)) {}
at::Tensor CenterCrop::apply(const at::Tensor& image, Random&) const {
  return images::center_crop(image, options_.size.square());
}

void RandomCrop::Options::declare(OptionList<Options>& options) {
  declare_size(options, "Pixels of both sides, or [height, width]");
  options.add("padding", &Options::padding, "Pixels that are added on each side first").min(0);
  options.add("fill", &Options::fill, "Their value: 0 to 255 for uint8, 0 to 1 for floats");
}
RandomCrop::RandomCrop(const Options& options) : options_(checked("RandomCrop", options)) {}
at::Tensor RandomCrop::apply(const at::Tensor& image, Random& random) const {
  const std::int64_t padding = options_.padding;
  const at::Tensor padded = padding == 0 ? image : images::pad(image, {padding, padding, padding, padding}, options_.fill);
  const images::Size size = options_.size.square();
  const std::int64_t down = padded.size(-2) - size[0], right = padded.size(-1) - size[1];
  if (down < 0 || right < 0) {
    throw MisuseError(format("RandomCrop: an image of {} x {} pixels is smaller than {} x {}: resize it first, or add padding",
                             padded.size(-1), padded.size(-2), size[1], size[0]));
  }
  const std::int64_t top = uniform_int(random, 0, down + 1), left = uniform_int(random, 0, right + 1);
  return images::crop(padded, top, left, size);
}

void ChanceOptions::declare(OptionList<ChanceOptions>& options) {
  options.add("p", &ChanceOptions::p, "Probability").min(0).max(1);
}
RandomHorizontalFlip::RandomHorizontalFlip(const Options& options) : options_(checked("RandomHorizontalFlip", options)) {}
at::Tensor RandomHorizontalFlip::apply(const at::Tensor& image, Random& random) const {
  return uniform(random, 0, 1) < options_.p ? images::horizontal_flip(image) : image;
}
RandomVerticalFlip::RandomVerticalFlip(const Options& options) : options_(checked("RandomVerticalFlip", options)) {}
at::Tensor RandomVerticalFlip::apply(const at::Tensor& image, Random& random) const {
  return uniform(random, 0, 1) < options_.p ? images::vertical_flip(image) : image;
}

void RandomAffine::Options::declare(OptionList<Options>& options) {
  options.add("degrees", &Options::degrees, "Largest rotation, to both sides").min(0).max(180);
  options.add("translate", &Options::translate, "Largest moves, to both sides, as shares of [width, height]").min(0).max(1);
  options.add("scale", &Options::scale, "Scale: [from, to]; empty: 1");
  options.add("shear", &Options::shear, "Largest shear in x, in degrees, to both sides").min(0).max(89);
  declare_pixels(options);
  options.rule({"translate"}, [](const Options& given) {
    return given.translate.empty() || given.translate.size() == 2 ? ""
                                                                  : "translate is [share of width, share of height], or empty";
  });
  options.rule({"scale"}, [](const Options& given) { return why_no_range("scale", given.scale, 0.0, true); });
}
RandomAffine::RandomAffine(const Options& options) : options_(checked("RandomAffine", options)) {}
at::Tensor RandomAffine::apply(const at::Tensor& image, Random& random) const {
  images::Affine move;
  move.degrees = uniform(random, -options_.degrees, options_.degrees);
  for (std::size_t side = 0; side < options_.translate.size(); ++side) {
    const double most = options_.translate[side] * static_cast<double>(image.size(side == 0 ? -1 : -2));
    move.translate[side] = std::round(uniform(random, -most, most));
  }
  if (!options_.scale.empty()) move.scale = uniform(random, options_.scale[0], options_.scale[1]);
  move.shear[0] = uniform(random, -options_.shear, options_.shear);
  return images::affine(image, move, options_.interpolation, options_.fill);
}

void RandomRotation::Options::declare(OptionList<Options>& options) {
  options.add("degrees", &Options::degrees, "Largest rotation, to both sides").min(0).max(180);
  declare_pixels(options);
}
RandomRotation::RandomRotation(const Options& options) : options_(checked("RandomRotation", options)) {}
at::Tensor RandomRotation::apply(const at::Tensor& image, Random& random) const {
  return images::rotate(image, uniform(random, -options_.degrees, options_.degrees), options_.interpolation, options_.fill);
}

void ColorJitter::Options::declare(OptionList<Options>& options) {
  options.add("brightness", &Options::brightness, "The factor is from 1 - brightness to 1 + brightness").min(0);
  options.add("contrast", &Options::contrast, "So is that of contrast").min(0);
  options.add("saturation", &Options::saturation, "And of saturation").min(0);
  options.add("hue", &Options::hue, "The shift is from -hue to hue").min(0).max(0.5);
}
ColorJitter::ColorJitter(const Options& options) : options_(checked("ColorJitter", options)) {}
at::Tensor ColorJitter::apply(const at::Tensor& image, Random& random) const {
  const auto factor = [&](double most) { return uniform(random, std::max(0.0, 1 - most), 1 + most); };
  const double brightness = factor(options_.brightness), contrast = factor(options_.contrast);
  const double saturation = factor(options_.saturation), hue = uniform(random, -options_.hue, options_.hue);
  std::vector<std::function<at::Tensor(const at::Tensor&)>> changes;
  if (options_.brightness > 0)
    changes.emplace_back([=](const at::Tensor& given) { return images::adjust_brightness(given, brightness); });
  if (options_.contrast > 0)
    changes.emplace_back([=](const at::Tensor& given) { return images::adjust_contrast(given, contrast); });
  if (options_.saturation > 0)
    changes.emplace_back([=](const at::Tensor& given) { return images::adjust_saturation(given, saturation); });
  if (options_.hue > 0) changes.emplace_back([=](const at::Tensor& given) { return images::adjust_hue(given, hue); });
  for (auto last = std::ssize(changes) - 1; last > 0; --last) {
    std::swap(changes[static_cast<std::size_t>(last)], changes[static_cast<std::size_t>(uniform_int(random, 0, last + 1))]);
  }
  at::Tensor changed = image;
  for (const auto& change : changes) changed = change(changed);
  return changed;
}

void Grayscale::Options::declare(OptionList<Options>& options) {
  options.add("channels", &Options::channels, "1, or 3 equal ones").min(1).max(3);
  options.rule({"channels"}, [](const Options& given) { return given.channels == 2 ? "channels is 1 or 3" : ""; });
}
Grayscale::Grayscale(const Options& options) : options_(checked("Grayscale", options)) {}
at::Tensor Grayscale::apply(const at::Tensor& image, Random&) const { return images::grayscale(image, options_.channels); }

void RandomGrayscale::Options::declare(OptionList<Options>& options) {
  options.add("p", &Options::p, "Probability").min(0).max(1);
}
RandomGrayscale::RandomGrayscale(const Options& options) : options_(checked("RandomGrayscale", options)) {}
at::Tensor RandomGrayscale::apply(const at::Tensor& image, Random& random) const {
  return uniform(random, 0, 1) < options_.p ? images::grayscale(image, image.size(-3)) : image;
}

void GaussianBlur::Options::declare(OptionList<Options>& options) {
  options.add("kernel_size", &Options::kernel_size, "Pixels of the kernel's sides, odd, or [height, width]").required();
  options.add("sigma", &Options::sigma, "Deviation of the kernel in pixels: [from, to]");
  options.rule({"kernel_size"}, [](const Options& given) {
    const auto is_odd = [](std::int64_t side) { return side > 0 && side % 2 == 1; };
    const bool is_one =
        (given.kernel_size.size() == 1 || given.kernel_size.size() == 2) && std::ranges::all_of(given.kernel_size, is_odd);
    return is_one ? "" : "kernel_size is an odd number of pixels, or [height, width]";
  });
  options.rule({"sigma"}, [](const Options& given) { return why_no_range("sigma", given.sigma, 0.0, false); });
}
GaussianBlur::GaussianBlur(const Options& options) : options_(checked("GaussianBlur", options)) {}
at::Tensor GaussianBlur::apply(const at::Tensor& image, Random& random) const {
  const double sigma = uniform(random, options_.sigma[0], options_.sigma[1]);
  return images::gaussian_blur(image, options_.kernel_size.square(), {sigma, sigma});
}

void RandomErasing::Options::declare(OptionList<Options>& options) {
  options.add("p", &Options::p, "Probability").min(0).max(1);
  options.add("scale", &Options::scale, "The area's share of the image's: [from, to]");
  options.add("ratio", &Options::ratio, "The area's width by its height: [from, to]");
  options.add("value", &Options::value,
              "What it gets: 0 to 255 for uint8, 0 to 1 for floats, any number once they are normalized");
  options.rule({"scale"}, [](const Options& given) { return why_no_range("scale", given.scale, 0.0, false); });
  options.rule({"ratio"}, [](const Options& given) { return why_no_range("ratio", given.ratio, 0.0, false); });
}
RandomErasing::RandomErasing(const Options& options) : options_(checked("RandomErasing", options)) {}
at::Tensor RandomErasing::apply(const at::Tensor& image, Random& random) const {
  if (uniform(random, 0, 1) >= options_.p) return image;
  const auto area = area_at_random({image.size(-2), image.size(-1)}, options_.scale, options_.ratio, random);
  return area ? images::erase(image, area->top, area->left, area->area, options_.value) : image;
}

void Normalize::Options::declare(OptionList<Options>& options) {
  options.add("mean", &Options::mean, "Of each channel, of values from 0 to 1");
  options.add("std", &Options::std, "Deviation of each channel, above 0").above(0);
  options.rule({"mean", "std"}, [](const Options& given) {
    return given.mean.size() == given.std.size() && !given.mean.empty() ? "" : "mean and std have a number for each channel";
  });
}
Normalize::Normalize(const Options& options) : options_(checked("Normalize", options)) {}
at::Tensor Normalize::apply(const at::Tensor& image, Random&) const {
  return images::normalize(images::to_float(image), options_.mean, options_.std);
}

}  // namespace levin::images
