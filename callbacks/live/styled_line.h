#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace levin {

/// What a part of a line is; a terminal with colours shows it.
enum class SpanStyle : std::uint8_t { kPlain, kDim, kTraining, kValidation, kAlert };

/// A part of a line, without control characters.
struct Span {
  std::string text;
  SpanStyle style = SpanStyle::kPlain;
};
using StyledLine = std::vector<Span>;

/// What a terminal can show.
struct TextStyle {
  bool utf8 = true;
  bool color = true;
  bool braille = false;  ///< curves in Braille dots, of which many fonts show boxes, instead of block characters
};

/// Columns that a line takes.
std::size_t width_of(const StyledLine& line);
/// Adds spaces up to so many columns; a longer line is cut.
StyledLine fitted(StyledLine line, std::size_t width);
/// As a terminal gets it, no wider than `width`, without spaces at its end.
std::string text_of(const StyledLine& line, std::size_t width, bool color);

}  // namespace levin
