#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"

namespace levin {

/// What log_table() takes: names of columns, and rows with a number, text, bool or null for each.
///
///     log_table("errors", {{"image", "label", "taken for"}, {{12, "seven", "one"}, {15, "three", "eight"}}});
struct LEVIN_API Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;
};

/// An image, as a PNG file holds it.
struct LEVIN_API LoggedImage {
  std::string png;  ///< the bytes of the file
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;  ///< 1: grey, 3: RGB, 4: with alpha
};

enum class FigureKind : std::uint8_t { kLines, kBars, kHeatMap };

/// A part of a plot: a line; or the bars of one colour, one for each of its columns; or the whole heat map, row by row.
template <class Numbers>
struct SeriesOf {
  // Constructors, for an initializer of `x` in place of them ends GCC 12 in an internal error where a list of series stands in
  // braces.
  SeriesOf() = default;
  SeriesOf(std::string name, Numbers y, Numbers x = {}) : name(std::move(name)), y(std::move(y)), x(std::move(x)) {}

  std::string name;
  Numbers y;
  Numbers x;  ///< of lines only; none: 0, 1, 2, …
};

/// A plot of numbers that come as these: tensors in what log_figure() takes (core/figure.h), lists in what a logger is given.
template <class Numbers>
struct FigureOf {
  using Series = SeriesOf<Numbers>;

  FigureKind kind = FigureKind::kLines;
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<Series> series = {};
  std::vector<std::string> columns = {};  ///< what bars or columns are called; none: 0, 1, 2, …
  std::vector<std::string> rows = {};     ///< of a heat map
  std::size_t width = 0;                  ///< of a heat map: how many columns
};

/// A plot, drawn by levin, and what it was drawn from.
struct LoggedFigure : FigureOf<std::vector<double>> {
  LoggedImage image = {};
};

/// How many of a tensor's numbers lie where. Bucket i has those above limit i-1, up to and with limit i; together the buckets
/// go from the least finite number to the greatest.
struct LEVIN_API LoggedHistogram {
  std::vector<double> limits;  ///< the upper ends, in ascending order; none where no number is finite
  std::vector<std::int64_t> counts;
  double min = 0;  ///< of the finite numbers, as what follows
  double max = 0;
  double sum = 0;
  double sum_squares = 0;
  std::int64_t number = 0;
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
};

struct LEVIN_API LoggedText {
  std::string text;
};

/// A file that the user has written. It is read when its turn comes.
struct LEVIN_API LoggedFile {
  std::filesystem::path path;
};

/// Something other than a row of metrics that one rank has logged: log_image() and its like of Module.
struct LEVIN_API LoggedItem {
  /// What it is, in the order of `content`.
  enum class Kind : std::uint8_t { kImage, kHistogram, kText, kTable, kFile, kFigure };

  std::string name;
  std::int64_t step = 0;  ///< as of the row that metrics logged at the same place are in
  std::int64_t epoch = 0;
  int rank = 0;
  std::variant<LoggedImage, LoggedHistogram, LoggedText, Table, LoggedFile, LoggedFigure> content;

  Kind kind() const { return static_cast<Kind>(content.index()); }
};

inline constexpr std::size_t kItemKinds = 6;

/// "image", "histogram", "text", "table", "file", "figure".
LEVIN_API std::string_view kind_name(LoggedItem::Kind kind);

}  // namespace levin
