#pragma once

#include "levin/callbacks/live/curves.h"
#include "levin/callbacks/live/styled_line.h"

namespace levin::test {

inline constexpr TextStyle kPlainText{.utf8 = false, .color = false};
inline constexpr TextStyle kUtf8{.utf8 = true, .color = false};
inline constexpr TextStyle kColored{.utf8 = true, .color = true};
inline constexpr TextStyle kBraille{.utf8 = true, .color = false, .braille = true};

inline Curve falling_loss() {
  Curve curve{.title = "loss", .training = {.name = "train_loss"}, .validation = {.name = "val_loss"}};
  for (int batch = 1; batch <= 100; ++batch) curve.training.points.emplace_back(batch, 1.0 - 0.009 * batch);
  curve.validation.points = {{50, 0.75}, {100, 0.5}};
  return curve;
}

}  // namespace levin::test
