#include "levin/callbacks/live/styled_line.h"

#include <array>

#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {

std::size_t width_of(const StyledLine& line) {
  std::size_t width = 0;
  for (const Span& span : line) width += display_width(span.text);
  return width;
}

StyledLine fitted(StyledLine line, std::size_t width) {
  std::size_t room = width;
  for (Span& span : line) {
    span.text = fit_to_width(span.text, room);
    room -= display_width(span.text);
  }
  line.push_back({std::string(room, ' ')});
  return line;
}

std::string text_of(const StyledLine& line, std::size_t width, bool color) {
  constexpr std::array kCodes = {"", "2", "36", "33", "1;33"};
  std::string text;
  std::size_t end = 0;  // of what is not blank
  for (const Span& span : fitted(line, width)) {
    if (span.text.empty()) continue;
    const bool has_style = color && span.style != SpanStyle::kPlain;
    text += has_style ? format("\033[{}m{}\033[0m", kCodes[static_cast<std::size_t>(span.style)], span.text) : span.text;
    if (has_style || span.text.find_first_not_of(' ') != std::string::npos) end = text.find_last_not_of(' ') + 1;
  }
  return text.substr(0, end);
}

}  // namespace levin
