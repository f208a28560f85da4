#pragma once

#include <vector>

#include "levin/core/logged_item.h"

namespace levin {

/// Draws a plot, 960 x 640 pixels, with axes, a legend where several lines or colours of bars have names, and the numbers of a
/// small heat map. Omits numbers that are not finite. Needs no system fonts. Threading: any.
LoggedImage draw_figure(const FigureOf<std::vector<double>>& figure);

}  // namespace levin
