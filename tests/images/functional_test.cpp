#include "levin/images/functional.h"

#include <torch/torch.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "images/image_references.h"
#include "levin/core/base/error.h"
#include "levin/images/rand_augment.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;
using Function = std::function<at::Tensor(const at::Tensor& image, const Value& arguments)>;

std::array<double, 2> pair_in(const Value& list) {
  return {list.as_list().at(0).as_double(), list.as_list().at(1).as_double()};
}

std::vector<double> numbers_in(const Value& list) {
  std::vector<double> numbers;
  for (const Value& each : list.as_list()) numbers.push_back(each.as_double());
  return numbers;
}

Function with_factor(at::Tensor (*function)(const at::Tensor&, double), const char* argument = "factor") {
  return [=](const at::Tensor& image, const Value& given) { return function(image, given.at(argument).as_double()); };
}

Function without_arguments(at::Tensor (*function)(const at::Tensor&)) {
  return [=](const at::Tensor& image, const Value&) { return function(image); };
}

at::Tensor padded(const at::Tensor& image, const Value& given) {
  std::array<std::int64_t, 4> padding = {};
  for (std::size_t side = 0; side < 4; ++side) padding[side] = given.at("padding").as_list()[side].as_int();
  return images::pad(image, padding, given.at("fill").as_double());
}

at::Tensor moved(const at::Tensor& image, const Value& given) {
  const images::Affine move = {.degrees = given.at("degrees").as_double(),
                               .translate = pair_in(given.at("translate")),
                               .scale = given.at("scale").as_double(),
                               .shear = pair_in(given.at("shear"))};
  return images::affine(image, move, interpolation_in(given), given.at("fill").as_double());
}

at::Tensor augmented(const at::Tensor& image, const Value& given) {
  return images::augment(image, given.at("operation").as_string(), given.at("magnitude").as_double(), interpolation_in(given),
                         given.at("fill").as_double());
}

const std::map<std::string, Function>& functions() {
  using Image = const at::Tensor&;
  using Given = const Value&;
  static const std::map<std::string, Function> table = {
      {"resize",
       [](Image image, Given given) { return images::resize(image, size_in(given.at("size")), interpolation_in(given)); }},
      {"crop",
       [](Image image, Given given) {
         return images::crop(image, given.at("top").as_int(), given.at("left").as_int(), size_in(given.at("size")));
       }},
      {"center_crop", [](Image image, Given given) { return images::center_crop(image, size_in(given.at("size"))); }},
      {"pad", padded},
      {"horizontal_flip", without_arguments(images::horizontal_flip)},
      {"vertical_flip", without_arguments(images::vertical_flip)},
      {"affine", moved},
      {"rotate",
       [](Image image, Given given) {
         return images::rotate(image, given.at("degrees").as_double(), interpolation_in(given), given.at("fill").as_double());
       }},
      {"adjust_brightness", with_factor(images::adjust_brightness)},
      {"adjust_contrast", with_factor(images::adjust_contrast)},
      {"adjust_saturation", with_factor(images::adjust_saturation)},
      {"adjust_sharpness", with_factor(images::adjust_sharpness)},
      {"adjust_hue", with_factor(images::adjust_hue, "shift")},
      {"grayscale", [](Image image, Given given) { return images::grayscale(image, given.at("channels").as_int()); }},
      {"invert", without_arguments(images::invert)},
      {"posterize",
       [](Image image, Given given) { return images::posterize(image, static_cast<int>(given.at("bits").as_int())); }},
      {"solarize", with_factor(images::solarize, "threshold")},
      {"autocontrast", without_arguments(images::autocontrast)},
      {"equalize", without_arguments(images::equalize)},
      {"gaussian_blur",
       [](Image image, Given given) {
         return images::gaussian_blur(image, size_in(given.at("kernel")), pair_in(given.at("sigma")));
       }},
      {"erase",
       [](Image image, Given given) {
         return images::erase(image, given.at("top").as_int(), given.at("left").as_int(), size_in(given.at("size")),
                              given.at("value").as_double());
       }},
      {"to_float", without_arguments(images::to_float)},
      {"normalize",
       [](Image image, Given given) {
         return images::normalize(image, numbers_in(given.at("mean")), numbers_in(given.at("deviation")));
       }},
      {"augment", augmented}};
  return table;
}

/// Runs all cases with images changed by `arrange`, which keeps their values.
void check_all(const std::function<at::Tensor(const at::Tensor&)>& arrange) {
  for (const ImageCase& each : image_references().cases) {
    INFO(each.title());
    const at::Tensor& image = image_references().images.at(each.image);
    const at::Tensor arranged = arrange(image);
    const at::Tensor result = functions().at(each.function)(arranged, each.arguments);
    const bool same = same_image(result, each.result);
    if (!same) UNSCOPED_INFO(result << "\nfor\n" << each.result);
    CHECK(same);
    CHECK(torch::equal(arranged, image));
  }
}

TEST_CASE("functions on images have the values of torchvision, and leave their images as they are") {
  std::set<std::string> compared;
  for (const ImageCase& each : image_references().cases) compared.insert(each.function);
  CHECK(compared.size() == functions().size());
  REQUIRE(image_references().cases.size() > 400);
  check_all([](const at::Tensor& image) { return image.clone(); });
}

TEST_CASE("functions on images have the same values where channels are side by side, as decoders write them") {
  check_all([](const at::Tensor& image) { return image.movedim(-3, -1).contiguous().movedim(-1, -3); });
}

TEST_CASE("functions on images have the same values of a part of a larger image") {
  check_all([](const at::Tensor& image) {
    return torch::constant_pad_nd(image, {3, 2, 1, 4}, 1).narrow(-1, 3, image.size(-1)).narrow(-2, 1, image.size(-2));
  });
}

TEST_CASE("an image whose shorter side is given keeps its proportions as in torchvision") {
  for (const Value& each : image_references().sizes.as_list()) {
    const Value::List& parts = each.as_list();
    CHECK(images::size_with_shorter_side(size_in(parts[0]), parts[1].as_int()) == size_in(parts[2]));
  }
}

const at::Tensor kColors = torch::zeros({3, 6, 8}, torch::kUInt8);
const at::Tensor kFloats = torch::zeros({3, 6, 8});
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

template <class Call>
void check_misuse(const Call& call, const std::string& text) {
  CHECK_THROWS_AS(call(), MisuseError);
  CHECK_THROWS_WITH(call(), Contains(text));
}

TEST_CASE("tensors that are no images are refused by every function on images, with its name and what they are") {
  const std::vector<std::pair<at::Tensor, std::string>> wrong = {{at::Tensor(), "undefined tensor"},
                                                                 {torch::zeros({6, 8}, torch::kUInt8), "[6, 8]"},
                                                                 {torch::zeros({3, 6, 8}, torch::kLong), "Long"},
                                                                 {torch::zeros({3, 6, 8}, torch::kHalf), "Half"},
                                                                 {torch::zeros({0, 3, 6, 8}), "has no pixels"}};
  std::set<std::string> done;
  for (const ImageCase& each : image_references().cases) {
    if (!done.insert(each.function).second) continue;
    for (const auto& [image, text] : wrong) {
      INFO(each.title());
      const auto call = [&, &given = image] { functions().at(each.function)(given, each.arguments); };
      check_misuse(call, text);
      check_misuse(call, each.function + ": ");
    }
  }
}

TEST_CASE("functions of colours refuse images of two channels, and other functions take them") {
  const std::set<std::string> of_colors = {"adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_sharpness",
                                           "adjust_hue",        "grayscale",       "autocontrast",      "augment"};
  const at::Tensor two = torch::full({2, 11, 10}, 0.5);
  std::set<std::string> done;
  for (const ImageCase& each : image_references().cases) {
    if (each.function == "normalize" || !done.insert(each.function).second) continue;
    INFO(each.title());
    if (of_colors.contains(each.function)) {
      check_misuse([&] { functions().at(each.function)(two, each.arguments); }, "has 2");
    } else if (each.function != "solarize") {
      CHECK(functions().at(each.function)(two, each.arguments).size(0) == 2);
    }
  }
}

TEST_CASE("sizes and areas out of range are refused") {
  check_misuse([] { images::resize(kColors, {0, 4}); }, "resize: the size is 0 x 4");
  check_misuse([] { images::resize(kColors, {4, -1}); }, "4 x -1");
  check_misuse([] { images::center_crop(kColors, {4, 0}); }, "center_crop: the size is 4 x 0");
  check_misuse([] { images::size_with_shorter_side({0, 4}, 2); }, "0 x 4");
  check_misuse([] { images::size_with_shorter_side({3, 4}, 0); }, "0 x 0");
  check_misuse(
      [] {
        images::crop(kColors, 3, 0, {4, 8});
      },
      "crop: the area of 4 x 8 at row 3 and column 0 is not inside the image of 6 x 8");
  check_misuse([] { images::crop(kColors, 0, -1, {4, 4}); }, "column -1");
  check_misuse([] { images::crop(kColors, 0, std::numeric_limits<std::int64_t>::max(), {4, 4}); }, "not inside");
  check_misuse([] { images::crop(kColors, 0, 0, {4, 9}); }, "not inside");
  check_misuse([] { images::erase(kColors, 0, 5, {2, 4}); }, "erase: the area of 2 x 4 at row 0 and column 5");
  check_misuse([] { images::pad(kColors, {0, 1, -2, 0}); }, "0, 1, -2, 0");
  check_misuse(
      [] {
        images::gaussian_blur(kColors, {4, 3}, {1, 1});
      },
      "the kernel's height is 4, and must be odd and from 1 to 11");
  check_misuse(
      [] {
        images::gaussian_blur(kColors, {3, 17}, {1, 1});
      },
      "the kernel's width is 17, and must be odd and from 1 to 15");
  CHECK(images::gaussian_blur(kColors, {11, 15}, {1, 1}).sizes() == kColors.sizes());
}

TEST_CASE("numbers out of range are refused") {
  for (const auto function :
       {images::adjust_brightness, images::adjust_contrast, images::adjust_saturation, images::adjust_sharpness}) {
    check_misuse([&] { function(kColors, -0.1); }, "the factor is -0.1");
    check_misuse([&] { function(kColors, kNotANumber); }, "the factor is .nan");
  }
  check_misuse([] { images::adjust_hue(kColors, 0.6); }, "adjust_hue: the shift is 0.6, and must be from -0.5 to 0.5");
  check_misuse([] { images::grayscale(kColors, 2); }, "grayscale: 2 channels");
  check_misuse([] { images::posterize(kColors, 9); }, "posterize: bits is 9, and must be from 0 to 8");
  check_misuse([] { images::posterize(kColors, -1); }, "-1");
  check_misuse([] { images::solarize(kColors, 256); }, "from 0.0 to 255.0");
  check_misuse([] { images::solarize(kFloats, 1.5); }, "from 0.0 to 1.0");
  check_misuse([] { images::gaussian_blur(kColors, {3, 3}, {1, 0}); }, "sigma for the width is 0");
  check_misuse([] { images::pad(kColors, {1, 1, 1, 1}, 256); }, "pad: fill is 256.0, and must be from 0.0 to 255.0");
  check_misuse([] { images::erase(kColors, 0, 0, {1, 1}, -1); }, "erase: value is -1");
  CHECK(images::pad(kFloats, {1, 0, 0, 0}, -2).min().item<double>() == -2);
  check_misuse([] { images::rotate(kColors, INFINITY); }, "rotate: a number is not finite");
  check_misuse([] { images::rotate(kColors, 10, Interpolation::kNearest, -1); }, "rotate: fill is -1");
  check_misuse([] { images::rotate(kColors, 0, Interpolation::kBicubic); }, "rotate: the interpolation is bicubic");
  check_misuse([] { images::affine(kColors, {.scale = 0}); }, "affine: the scale is 0");
  check_misuse([] { images::affine(kColors, {.shear = {0, kNotANumber}}); }, "affine: a number is not finite");
  check_misuse([] { images::affine(kColors, {}, Interpolation::kBicubic); }, "affine: the interpolation is bicubic");
  check_misuse([] { images::normalize(kColors, {0, 0, 0}, {1, 1, 1}); }, "to_float() first");
  check_misuse(
      [] {
        images::normalize(kFloats, {0, 0, 0}, {1, 1});
      },
      "3 channels needs as many means and deviations, and there are 3 and 2");
  check_misuse([] { images::normalize(kFloats, {0, 0, 0}, {1, 0, 1}); }, "a deviation is 0");
}

}  // namespace
}  // namespace levin::test
