#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/logged_item.h"

namespace levin {

/// The texts around a plot.
struct LEVIN_API FigureLabels {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<std::string> columns = {};  ///< of bars and of a heat map; none: 0, 1, 2, …
  std::vector<std::string> rows = {};     ///< of a heat map; none: 0, 1, 2, …
};

/// A plot that levin draws, for log_figure(). Its tensors are real, on any device; none is waited for.
///
///     const FigureLabels labels{.x_label = "predicted", .y_label = "is", .columns = kNames, .rows = kNames};
///     log_figure("confusion", Figure::heat_map(confusion, labels));
///     log_figure("roc", Figure::lines({{"car", sensitivity, fall_out}}, {.x_label = "fall-out", .y_label = "sensitivity"}));
///     log_figure("accuracy", Figure::bars({{"training", of_training}, {"validation", of_validation}}, {.columns = kNames}));
struct LEVIN_API Figure : FigureOf<at::Tensor> {
  /// Lines through points [N], with as many x, or none: 0, 1, 2, …. A line has a gap where a number is not finite.
  static Figure lines(std::vector<Series> series, FigureLabels labels = {});
  /// Bars of height y [N]; bars of several series stand side by side.
  static Figure bars(std::vector<Series> series, FigureLabels labels = {});
  /// [rows, columns], the first row on top. With at most 30 rows and columns it also shows the numbers.
  static Figure heat_map(at::Tensor values, FigureLabels labels = {});
};

}  // namespace levin
