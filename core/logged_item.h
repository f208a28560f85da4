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

/// The argument of log_table(): column names, and rows with a number, text, bool or null for each.
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

/// A part of a plot: a line; the bars of one colour, one for each column; or the whole heat map, row by row.
template <class Numbers>
struct SeriesOf {
  // Constructors, because with an initializer of `x` instead, GCC 12 fails with an internal error on a braced list of series.
  SeriesOf() = default;
  SeriesOf(std::string name, Numbers y, Numbers x = {}) : name(std::move(name)), y(std::move(y)), x(std::move(x)) {}

  std::string name;
  Numbers y;
  Numbers x;  ///< of lines only; none: 0, 1, 2, …
};

/// A plot with its numbers in this type: tensors for log_figure() (core/figure.h), lists for a logger.
template <class Numbers>
struct FigureOf {
  using Series = SeriesOf<Numbers>;

  FigureKind kind = FigureKind::kLines;
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<Series> series = {};
  std::vector<std::string> columns = {};  ///< names of bars or columns; none: 0, 1, 2, …
  std::vector<std::string> rows = {};     ///< of a heat map
  std::size_t width = 0;                  ///< of a heat map, in columns
};

/// A plot that levin has drawn, and its numbers.
struct LoggedFigure : FigureOf<std::vector<double>> {
  LoggedImage image = {};
};

/// The distribution of a tensor's numbers. Bucket i counts those above limit i-1, up to and including limit i. The buckets
/// cover the range from the least finite number to the greatest.
struct LEVIN_API LoggedHistogram {
  std::vector<double> limits;  ///< the upper ends, in ascending order; none where no number is finite
  std::vector<std::int64_t> counts;
  double min = 0;  ///< of the finite numbers, like the next three
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

/// A file that the user has written. It is read later, in the order of items.
struct LEVIN_API LoggedFile {
  std::filesystem::path path;
};

/// An item, not a metric, that one rank has logged with Module::log_image() or a similar function.
struct LEVIN_API LoggedItem {
  /// In the order of `content`.
  enum class Kind : std::uint8_t { kImage, kHistogram, kText, kTable, kFile, kFigure };

  std::string name;
  std::int64_t step = 0;  ///< that of metrics logged at the same time
  std::int64_t epoch = 0;
  int rank = 0;
  std::variant<LoggedImage, LoggedHistogram, LoggedText, Table, LoggedFile, LoggedFigure> content;

  Kind kind() const { return static_cast<Kind>(content.index()); }
};

inline constexpr std::size_t kItemKinds = 6;

/// "image", "histogram", "text", "table", "file", "figure".
LEVIN_API std::string_view kind_name(LoggedItem::Kind kind);

}  // namespace levin
