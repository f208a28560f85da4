#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// Opens /dev/null on those of the descriptors 0, 1 and 2 that are closed, so that no file, socket or shared memory that is
/// opened later gets their numbers and, with them, every message. Done when liblevin is loaded, before main(); again before
/// ranks are started, for a program that has closed them meanwhile. Threading: async-signal-safe.
void open_standard_descriptors() noexcept;

/// True when the file descriptor is a terminal, and not what Open MPI puts in place of one.
bool is_terminal(int fd);
/// True when the terminal understands cursor movements, so that a line can be redrawn: a terminal, and TERM is not "dumb".
bool terminal_redraws(int fd);
/// True when text may be coloured: a terminal that redraws, and NO_COLOR is unset or empty (https://no-color.org).
bool terminal_has_color(int fd);
/// Columns of the terminal, asked anew on each call so that resizing is seen at once; `fallback` when that is not known.
int terminal_width(int fd, int fallback = 80);
/// True when the environment's locale (LC_ALL, else LC_CTYPE, else LANG) uses UTF-8.
bool locale_is_utf8();

/// Writes a text, waiting where the other end is slow. A console that is gone (a closed pipe, a terminal that hung up) must not
/// end a training run: an error ends the attempt only, and gives false with errno set.
bool write_whole(int fd, std::string_view text);

/// Columns that a text takes on a terminal: 2 for wide characters, 0 for combining ones, 1 for controls and what is no UTF-8.
std::size_t display_width(std::string_view text);
/// The longest beginning of `text` that takes at most `width` columns. Never cuts a character in two.
std::string fit_to_width(std::string_view text, std::size_t width);

/// The text with every control character (line breaks, tabs, escapes) made a space, so that it cannot move the cursor.
std::string one_line(std::string_view text);

enum class Align { kLeft, kRight };

/// A table as text: a header, a rule, one line a row; columns are as wide as their widest cell and parted by " | ".
/// A cell's line breaks and other control characters become spaces, missing cells are empty.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<Align> align;  ///< by column; left where missing

  /// Without a line break at the end, no spaces at the ends of lines.
  std::string str() const;
};

}  // namespace levin
