#include "levin/callbacks/live/curves.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "callbacks/live/sample_curve.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("a curve of no value, of one, of equal ones, and of some that are not finite") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto drawn = [](const std::vector<std::pair<double, double>>& points, const TextStyle& style) {
    std::string text;
    for (const StyledLine& line : draw({.training = {.name = "loss", .points = points}}, 30, 5, style)) {
      CHECK(width_of(line) == 30);
      text += text_of(line, 30, false) + "\n";
    }
    return text;
  };
  CHECK(drawn({}, kPlainText).find("no metric yet") != std::string::npos);
  CHECK(drawn({{1, nan}, {2, std::numeric_limits<double>::infinity()}}, kPlainText).find("no metric yet") != std::string::npos);
  for (const auto& points : {std::vector<std::pair<double, double>>{{7, 0.5}}, {{7, 0.5}, {8, nan}}}) {
    const std::string one = drawn(points, kPlainText);
    CHECK(std::count(one.begin(), one.end(), '*') == 1);
    CHECK(one.find("   0.500|") != std::string::npos);
  }
  const std::string equal = drawn({{1, 2}, {2, 2}, {3, nan}, {4, 2}}, kPlainText);
  CHECK(std::count(equal.begin(), equal.end(), '*') == 21);
  CHECK(drawn({{1, 0}, {2, 1}}, kBraille).find("⣀⠤⠒⠉") != std::string::npos);
  CHECK(drawn({{1, 0}, {2, 1}}, kUtf8).find("▄▀") != std::string::npos);
}

TEST_CASE("training and validation differ without colours") {
  const auto text = [](const TextStyle& style) {
    std::string text;
    for (const StyledLine& line : draw(falling_loss(), 60, 6, style)) text += text_of(line, 60, style.color) + "\n";
    return text;
  };
  CHECK(text(kUtf8).find("•") != std::string::npos);
  CHECK(text(kPlainText).find('o') != std::string::npos);
  CHECK(text(kColored).find("•") == std::string::npos);
  CHECK(text(kColored).find("\033[33m") != std::string::npos);
}

TEST_CASE("losses are drawn first, whatever came before") {
  CurveHistory history;
  for (const char* const name : {"val_acc", "train_loss", "lr-Adam", "other_loss"}) history.add(name, 1, 1.0, false);
  std::vector<std::string> titles;
  for (const Curve& curve : history.curves()) titles.push_back(curve.title);
  CHECK(titles == std::vector<std::string>{"loss", "other_loss", "acc", "lr-Adam"});
}

TEST_CASE("metrics whose names say that they belong together share a curve") {
  CurveHistory history;
  history.add("train_loss_step", 1, 1.0, false);
  history.add("acc", 1, 0.1, false);
  history.add("val_loss", 1, 2.0, true);
  history.add("val/acc", 1, 0.2, true);
  history.add("lr-Adam", 1, 1e-3, false);
  history.add("train/loss", 1, 3.0, false);  // another one: train_loss_step has the only position
  const std::vector<Curve>& curves = history.curves();
  REQUIRE(curves.size() == 4);
  CHECK(curves[0].training.name == "train_loss_step");
  CHECK(curves[0].validation.name == "val_loss");
  CHECK(curves[1].training.name == "train/loss");
  CHECK(curves[2].title == "acc");
  CHECK(curves[2].validation.name == "val/acc");
  CHECK(curves[3].title == "lr-Adam");
  CHECK(curve_title("train") == "train");
  CHECK(curve_title("valid") == "valid");
  CHECK(curve_title("validation_f1") == "f1");
}

TEST_CASE("a history takes the newest value of a batch, and stays small however long a run is") {
  CurveHistory history;
  history.add("loss", 1, 5.0, false);
  history.add("loss", 1, 6.0, false);
  CHECK(history.curves()[0].training.points == std::vector<std::pair<double, double>>{{1, 6}});
  constexpr int kBatches = 100'000;
  for (int batch = 2; batch <= kBatches; ++batch) history.add("loss", batch, batch, false);
  const auto& points = history.curves()[0].training.points;
  CHECK(points.size() >= CurveHistory::kMost / 4);
  CHECK(points.size() < CurveHistory::kMost);
  CHECK(points.back().first == kBatches);
  double before = 0;
  for (const auto& [x, y] : points) {
    CHECK(x > before);
    CHECK(std::abs(x - y) <= 2.0 * kBatches / static_cast<double>(points.size()));
    before = x;
  }
}
