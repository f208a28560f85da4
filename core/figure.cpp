#include "levin/core/figure.h"

#include <utility>

namespace levin {
namespace {

Figure figure_of(FigureKind kind, std::vector<Figure::Series> series, FigureLabels labels) {
  Figure figure;
  figure.kind = kind;
  figure.title = std::move(labels.title);
  figure.x_label = std::move(labels.x_label);
  figure.y_label = std::move(labels.y_label);
  figure.columns = std::move(labels.columns);
  figure.rows = std::move(labels.rows);
  figure.series = std::move(series);
  return figure;
}

}  // namespace

Figure Figure::lines(std::vector<Series> series, FigureLabels labels) {
  return figure_of(FigureKind::kLines, std::move(series), std::move(labels));
}

Figure Figure::bars(std::vector<Series> series, FigureLabels labels) {
  return figure_of(FigureKind::kBars, std::move(series), std::move(labels));
}

Figure Figure::heat_map(at::Tensor values, FigureLabels labels) {
  return figure_of(FigureKind::kHeatMap, {{"", std::move(values)}}, std::move(labels));
}

}  // namespace levin
