#include "levin/images/rand_augment.h"

#include <ATen/ops/linspace.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/images/functional_shared.h"

namespace levin::images {

LEVIN_REGISTER_IMAGE_TRANSFORM(RandAugment, "Some operations of one magnitude, drawn at random");

namespace {

/// How far an operation goes beyond the pixels of the image.
struct Outside {
  Interpolation interpolation;
  double fill;
};

/// What the magnitudes of an operation are.
struct Magnitudes {
  double first = 0;
  double last = 0;
  bool is_signed = false;
  int side = -1;          ///< 0 and 1: they are shares of the image's height or width
  bool is_whole = false;  ///< rounded, a half to the even number
};

struct Augmentation {
  const char* name;
  Magnitudes magnitudes;
  at::Tensor (*apply)(const at::Tensor& image, double magnitude, const Outside& outside);
};

/// `share`: by how many pixels a row or a column moves against the one before it. The upper left corner stays.
at::Tensor shear(const at::Tensor& image, double share_x, double share_y, const Outside& outside) {
  const auto degrees = [](double share) { return std::atan(share) * (180.0 / 3.14159265358979323846); };
  const std::array<double, 2> corner = {-0.5 * static_cast<double>(image.size(-1)), -0.5 * static_cast<double>(image.size(-2))};
  return detail::affine_around(corner, image, {.shear = {degrees(share_x), degrees(share_y)}}, outside.interpolation,
                               outside.fill);
}

at::Tensor move(const at::Tensor& image, double x, double y, const Outside& outside) {
  return affine(image, {.translate = {std::trunc(x), std::trunc(y)}}, outside.interpolation, outside.fill);
}

constexpr Magnitudes kNone = {};
constexpr Magnitudes kShear = {0, 0.3, true};
constexpr Magnitudes kFactor = {0, 0.9, true};
constexpr double kMost = 150.0 / 331.0;

using Image = const at::Tensor&;
constexpr std::array<Augmentation, 14> kAugmentations = {{
    {"Identity", kNone, [](Image image, double, const Outside&) { return image; }},
    {"ShearX", kShear, [](Image image, double m, const Outside& outside) { return shear(image, m, 0, outside); }},
    {"ShearY", kShear, [](Image image, double m, const Outside& outside) { return shear(image, 0, m, outside); }},
    {"TranslateX", {0, kMost, true, 1}, [](Image image, double m, const Outside& out) { return move(image, m, 0, out); }},
    {"TranslateY", {0, kMost, true, 0}, [](Image image, double m, const Outside& out) { return move(image, 0, m, out); }},
    {"Rotate",
     {0, 30, true},
     [](Image image, double m, const Outside& out) { return rotate(image, m, out.interpolation, out.fill); }},
    {"Brightness", kFactor, [](Image image, double m, const Outside&) { return adjust_brightness(image, 1 + m); }},
    {"Color", kFactor, [](Image image, double m, const Outside&) { return adjust_saturation(image, 1 + m); }},
    {"Contrast", kFactor, [](Image image, double m, const Outside&) { return adjust_contrast(image, 1 + m); }},
    {"Sharpness", kFactor, [](Image image, double m, const Outside&) { return adjust_sharpness(image, 1 + m); }},
    {"Posterize",
     {8, 4, false, -1, true},
     [](Image image, double m, const Outside&) { return posterize(image, static_cast<int>(m)); }},
    {"Solarize", {1, 0}, [](Image image, double m, const Outside&) { return solarize(image, detail::white(image) * m); }},
    {"AutoContrast", kNone, [](Image image, double, const Outside&) { return autocontrast(image); }},
    {"Equalize", kNone, [](Image image, double, const Outside&) { return equalize(image); }},
}};

const Augmentation& augmentation(std::string_view name) {
  const auto found =
      std::find_if(kAugmentations.begin(), kAugmentations.end(), [&](const Augmentation& each) { return name == each.name; });
  if (found != kAugmentations.end()) return *found;
  throw MisuseError(format("RandAugment has no operation '{}'; it has {}", name, join(augmentations())));
}

double magnitude_in(const Magnitudes& magnitudes, int bin, int bins, Size size) {
  const auto [first, last, is_signed, side, is_whole] = magnitudes;
  if (first == last) return first;
  if (is_whole) return std::nearbyint(first + (last - first) * bin / (bins - 1));
  const double end = side < 0 ? last : last * static_cast<double>(size[static_cast<std::size_t>(side)]);
  // In float32, as torchvision's.
  return static_cast<double>(at::linspace(first, end, bins, at::kFloat).const_data_ptr<float>()[bin]);
}

}  // namespace

std::vector<std::string> augmentations() {
  std::vector<std::string> names;
  for (const Augmentation& each : kAugmentations) names.emplace_back(each.name);
  return names;
}

double magnitude_of(std::string_view operation, int bin, int bins, Size size) {
  const Augmentation& found = augmentation(operation);
  detail::check_size("magnitude_of", size);
  if (bins < 2 || bin < 0 || bin >= bins) {
    throw MisuseError(format("magnitude_of: bin {} of {} is none of at least two bins, counted from 0", bin, bins));
  }
  return magnitude_in(found.magnitudes, bin, bins, size);
}

at::Tensor augment(const at::Tensor& image, std::string_view operation, double magnitude, Interpolation interpolation,
                   double fill) {
  const Augmentation& found = augmentation(operation);
  detail::check_color_image("augment", image);
  return found.apply(image, magnitude, {interpolation, fill});
}

void RandAugment::Options::declare(OptionList<Options>& options) {
  options.add(&Options::num_ops, "How many operations are applied, one after another").min(0);
  options.add(&Options::magnitude, "How strong they are: a bin, counted from 0").min(0);
  options.add(&Options::num_magnitude_bins, "Into how many bins the magnitudes are divided").min(2);
  options.add(&Options::interpolation, "How pixels between pixels are computed: nearest or bilinear");
  options.add(&Options::fill, "The value of pixels that come from outside of the image, in its unit").min(0);
  options.rule({"magnitude", "num_magnitude_bins"}, [](const Options& given) -> std::string {
    return given.magnitude < given.num_magnitude_bins ? "" : "magnitude must be less than num_magnitude_bins";
  });
  options.rule({"interpolation"}, [](const Options& given) -> std::string {
    return given.interpolation != Interpolation::kBicubic ? "" : "RandAugment cannot interpolate bicubic: write bilinear";
  });
}

RandAugment::RandAugment() : RandAugment(Options{}) {}

RandAugment::RandAugment(const Options& options) : options_(checked("RandAugment", options)) {}

at::Tensor RandAugment::apply(const at::Tensor& image, Random& random) const {
  detail::check_color_image("RandAugment", image);
  detail::check_pixel("RandAugment", "fill", image, options_.fill);
  const Size size = {image.size(-2), image.size(-1)};
  at::Tensor result = image;
  for (int applied = 0; applied < options_.num_ops; ++applied) {
    const auto drawn = static_cast<std::size_t>(uniform_int(random, 0, std::ssize(kAugmentations)));
    const Augmentation& each = kAugmentations[drawn];
    const double magnitude = magnitude_in(each.magnitudes, options_.magnitude, options_.num_magnitude_bins, size);
    const bool is_negative = each.magnitudes.is_signed && uniform_int(random, 0, 2) == 0;
    result = each.apply(result, is_negative ? -magnitude : magnitude, {options_.interpolation, options_.fill});
  }
  return result;
}

}  // namespace levin::images
