#include "levin/images/rand_augment.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "images/image_references.h"
#include "levin/core/base/error.h"
#include "levin/core/config/registry.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;
using images::RandAugment;

const at::Tensor& photograph() { return image_references().images.at("dull"); }

/// What RandAugment may make of the image with one operation: the operation's name and result, of both signs.
std::vector<std::pair<std::string, at::Tensor>> possible_results(const RandAugment::Options& options) {
  std::vector<std::pair<std::string, at::Tensor>> results;
  const images::Size size = {photograph().size(-2), photograph().size(-1)};
  const std::set<std::string> signed_ones = {"ShearX", "ShearY",     "TranslateX", "TranslateY", "Rotate",
                                             "Color",  "Brightness", "Contrast",   "Sharpness"};
  for (const std::string& name : images::augmentations()) {
    const double magnitude = images::magnitude_of(name, options.magnitude, options.num_magnitude_bins, size);
    for (const double sign : {1, -1}) {
      if (sign < 0 && !signed_ones.contains(name)) continue;
      const std::string title = name + (sign < 0 ? " back" : "");
      results.emplace_back(title, images::augment(photograph(), name, sign * magnitude, options.interpolation, options.fill));
    }
  }
  return results;
}

TEST_CASE("the magnitudes of RandAugment are torchvision's") {
  std::set<std::string> compared;
  for (const Value& each : image_references().magnitudes.as_list()) {
    const Value::List& parts = each.as_list();
    const std::string& name = parts[0].as_string();
    compared.insert(name);
    const int bins = static_cast<int>(parts[1].as_int());
    for (int bin = 0; bin < bins; ++bin) {
      INFO(name << ", bin " << bin << " of " << bins);
      const double expected = parts[3].as_list()[static_cast<std::size_t>(bin)].as_double();
      // CPUs differ in the last bit of a float.
      CHECK(images::magnitude_of(name, bin, bins, size_in(parts[2])) == Approx(expected).epsilon(1e-6).margin(1e-6));
    }
  }
  const std::vector<std::string> names = images::augmentations();
  CHECK(compared == std::set<std::string>(names.begin(), names.end()));
}

TEST_CASE("RandAugment draws each operation, of both signs, about equally often") {
  const RandAugment::Options options = {.num_ops = 1, .magnitude = 20, .interpolation = Interpolation::kBilinear, .fill = 17};
  const RandAugment transform(options);
  const auto possible = possible_results(options);
  std::map<std::string, int> drawn;
  constexpr int kDraws = 2800;
  Random random(5);
  for (int draw = 0; draw < kDraws; ++draw) {
    const at::Tensor result = transform.apply(photograph(), random);
    const auto found =
        std::find_if(possible.begin(), possible.end(), [&](const auto& each) { return torch::equal(each.second, result); });
    REQUIRE(found != possible.end());
    ++drawn[found->first];
  }
  for (const auto& [title, result] : possible) {
    // Of 14 operations; those of two signs are half as frequent each.
    const bool has_signs = std::any_of(possible.begin(), possible.end(), [&, &name = title](const auto& each) {
      return each.first == name + " back" || each.first + " back" == name;
    });
    const double expected = kDraws / 14.0 / (has_signs ? 2 : 1);
    INFO(title << ": " << drawn[title] << " for " << expected);
    CHECK(std::abs(drawn[title] - expected) < 4.5 * std::sqrt(expected));
  }
}

TEST_CASE("RandAugment applies as many operations as it has options for, one to the result of another") {
  Random random(2);
  CHECK(torch::equal(RandAugment({.num_ops = 0}).apply(photograph(), random), photograph()));
  const auto possible = possible_results({});
  const at::Tensor result = RandAugment({.num_ops = 2}).apply(photograph(), random);
  std::vector<std::string> explanations;
  for (const auto& [first, intermediate] : possible) {
    for (const std::string& second : images::augmentations()) {
      const double magnitude = images::magnitude_of(second, 9, 31, {photograph().size(-2), photograph().size(-1)});
      for (const double sign : {1, -1}) {
        if (sign < 0 && (second == "Posterize" || second == "Solarize")) continue;
        const at::Tensor explained = images::augment(intermediate, second, sign * magnitude);
        if (torch::equal(explained, result)) explanations.push_back(first + ", " + second);
      }
    }
  }
  REQUIRE(!explanations.empty());
  for (const std::string& each : explanations) {
    INFO(each);
    CHECK(each.find("Identity") == std::string::npos);  // which would make it one operation
  }
}

TEST_CASE("RandAugment gives the same image for the same random numbers, and another one for others") {
  const RandAugment transform;
  const auto result = [&](std::uint64_t seed) {
    Random random(seed);
    return transform.apply(photograph(), random);
  };
  CHECK(torch::equal(result(3), result(3)));
  CHECK(!torch::equal(result(3), result(4)));
}

TEST_CASE("RandAugment refuses options, names and images that it cannot work with") {
  CHECK_THROWS_WITH(RandAugment({.magnitude = 31}), Contains("magnitude must be less than num_magnitude_bins"));
  CHECK_THROWS_WITH(RandAugment({.num_ops = -1}), Contains("num_ops"));
  CHECK_THROWS_WITH(RandAugment({.magnitude = 0, .num_magnitude_bins = 1}), Contains("num_magnitude_bins"));
  CHECK_THROWS_WITH(RandAugment({.interpolation = Interpolation::kBicubic}), Contains("write bilinear"));
  Random random(1);
  CHECK_THROWS_WITH(RandAugment().apply(torch::zeros({2, 4, 4}), random), Contains("RandAugment: an image of 1 or 3 channels"));
  CHECK_THROWS_WITH(RandAugment({.fill = 256}).apply(photograph(), random), Contains("fill is 256"));
  CHECK_THROWS_WITH(images::augment(photograph(), "Blur", 1), Contains("'Blur'") && Contains("Identity, ShearX"));
  CHECK_THROWS_WITH(images::magnitude_of("Rotate", 31, 31, {4, 4}), Contains("bin 31 of 31"));
  CHECK_THROWS_WITH(images::magnitude_of("Rotate", 0, 1, {4, 4}), Contains("bin 0 of 1"));
}

TEST_CASE("RandAugment is made by its name") {
  const auto made = Registry<ImageTransform>::instance().make("RandAugment", Value(Value::Map{{"num_ops", Value(0)}}));
  Random random(1);
  CHECK(torch::equal(made->apply(photograph(), random), photograph()));
}

}  // namespace
}  // namespace levin::test
