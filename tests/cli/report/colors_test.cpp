// The colours of the report's page, as its style sheet has them.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "levin/cli/embedded_file.h"
#include "levin/cli/report/report_page.h"

namespace {

using Color = std::array<double, 3>;  // linear red, green and blue, 0 to 1

constexpr int kColors = 8;

/// Of "--NAME: #rrggbb;" behind `from`.
Color color_of(const std::string& page, std::size_t from, const std::string& name) {
  const std::string begin = "--" + name + ": #";
  const std::size_t at = page.find(begin, from);
  REQUIRE(at != std::string::npos);
  std::string digits = page.substr(at + begin.size(), 6);
  // "#fff" is short for "#ffffff".
  if (digits.find(';') != std::string::npos) digits = {digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]};
  Color color{};
  for (std::size_t part = 0; part < color.size(); ++part) {
    const double value = std::stoi(digits.substr(2 * part, 2), nullptr, 16) / 255.0;
    color[part] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return color;
}

/// WCAG 2: from 1 to 21.
double contrast(const Color& one, const Color& other) {
  const auto luminance = [](const Color& color) { return 0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]; };
  const auto [low, high] = std::minmax({luminance(one), luminance(other)});
  return (high + 0.05) / (low + 0.05);
}

/// The distance in CIELAB, in which 2.3 is just seen.
double distance(const Color& one, const Color& other) {
  const auto lab = [](const Color& c) {
    const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
    const double x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.95047);
    const double y = f(0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]);
    const double z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.08883);
    return Color{116 * y - 16, 500 * (x - y), 200 * (y - z)};
  };
  const Color a = lab(one), b = lab(other);
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

using Matrix = std::array<Color, 3>;

/// As someone sees a colour who lacks a kind of cones (Machado and others, 2009).
Color seen(const Color& color, const Matrix& eye) {
  Color result{};
  for (std::size_t row = 0; row < 3; ++row)
    result[row] = std::max(0.0, eye[row][0] * color[0] + eye[row][1] * color[1] + eye[row][2] * color[2]);
  return result;
}

constexpr Matrix kAll = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix kDeuteranopia = {
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kProtanopia = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};

}  // namespace

TEST_CASE(
    "colours of runs stand out from their background and can be told apart, in light and dark, with and without red and "
    "green") {
  const std::string page = levin::cli::report_page({});
  for (const std::string theme : {":root {", ":root.dark {"}) {
    const std::size_t from = page.find(theme);
    REQUIRE(from != std::string::npos);
    std::vector<Color> runs;
    for (int run = 0; run < kColors; ++run) runs.push_back(color_of(page, from, "run-" + std::to_string(run)));
    const Color background = color_of(page, from, "card");
    for (int one = 0; one < kColors; ++one) {
      INFO(theme << " run " << one);
      // WCAG's bound for what is no text.
      CHECK(contrast(runs[one], background) >= 3);
      for (int other = 0; other < one; ++other) {
        INFO("and " << other);
        for (const Matrix& eye : {kAll, kDeuteranopia, kProtanopia})
          CHECK(distance(seen(runs[one], eye), seen(runs[other], eye)) >= 20);
      }
    }
    for (const char* text : {"ink", "soft", "bad", "good", "accent"}) {
      INFO(theme << " " << text);
      CHECK(contrast(color_of(page, from, text), background) >= 4.5);
    }
  }
}
