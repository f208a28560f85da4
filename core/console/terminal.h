#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace levin {

/// Opens /dev/null on those of the descriptors 0, 1 and 2 that are closed, so that no file, socket or shared memory that is
/// opened later gets their numbers and, with them, every message. Done when liblevin is loaded, before main(); again before
/// ranks are started, for a program that has closed them since. Threading: async-signal-safe.
void open_standard_descriptors() noexcept;

/// True when the file descriptor is a terminal, not Open MPI's substitute for one.
bool is_terminal(int fd);
/// True when the terminal understands cursor movements, so that a line can be redrawn: a terminal, and TERM is not "dumb".
bool terminal_redraws(int fd);
/// True when text may be coloured: a terminal that redraws, and NO_COLOR is unset or empty (https://no-color.org).
bool terminal_has_color(int fd);
/// Columns of the terminal, read on each call so that resizing is seen at once; `fallback` when unknown.
int terminal_width(int fd, int fallback = 80);
/// The size of a terminal.
struct TerminalSize {
  int columns = 80;
  int rows = 24;
  bool operator==(const TerminalSize&) const = default;
};
/// Read on each call; the default when unknown.
TerminalSize terminal_size(int fd);
/// True when the environment's locale (LC_ALL, else LC_CTYPE, else LANG) uses UTF-8.
bool locale_is_utf8();

/// Writes a text, and waits if the other end is slow. A console that is gone (a closed pipe, a terminal that hung up) must not
/// end a training run: an error only returns false, with errno set.
bool write_whole(int fd, std::string_view text);

/// The columns of a text on a terminal: 2 for wide characters, 0 for combining ones, 1 for controls and invalid UTF-8.
std::size_t display_width(std::string_view text);
/// The longest beginning of `text` with at most `width` columns, never with a part of a character.
std::string fit_to_width(std::string_view text, std::size_t width);

/// The text with spaces for line breaks and tabs, and other control characters as printable() shows them ("\x1b"), so that it
/// cannot move the cursor.
std::string one_line(std::string_view text);

enum class Align { kLeft, kRight };

/// A table as text: a header, a rule, one line per row; columns are as wide as their widest cell and separated by " | ". A
/// cell's line breaks and other control characters become spaces, missing cells are empty.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<Align> align;  ///< by column; left where missing

  /// Without a line break at the end, no spaces at the ends of lines.
  std::string str() const;
};

/// The content of a progress bar. Plain data, without drawing.
struct ProgressLine {
  std::string description = {};            ///< "Epoch 3"
  std::int64_t current = 0;                ///< iterations done
  std::optional<std::int64_t> total = {};  ///< unset: unknown
  double elapsed_seconds = 0;
  std::optional<double> rate = {};          ///< iterations a second; unset: current / elapsed
  std::optional<double> samples_rate = {};  ///< samples a second, over all ranks; unset: not shown
  using Figures = std::vector<std::pair<std::string, std::string>>;
  Figures details = {};  ///< the first to be omitted: the run
  Figures metrics = {};  ///< metric and its text, see figure_text(); omitted from the last on
};

/// The line in tqdm's shape, at most `width` columns wide: `Epoch 3: 45%|████▌ | 45/100 [00:02<00:03, 18.20it/s, 582 samples/s,
/// v_num=0, train_loss=0.123]`. The bar takes the remaining room. If less than 1 column remains, parts are omitted in this
/// order: details, samples per second, iterations per second, times, the bar, the count after the percentage, and metrics from
/// the last on, replaced by "…"; the rest is cut to the width. `utf8`: false draws the bar with '#' and digits.
std::string progress_line(const ProgressLine& line, int width, bool utf8);

/// Only the bar, `width` columns wide, filled from 0 to 1.
std::string progress_bar(double fraction, int width, bool utf8);

/// "582 samples/s", "7.5 samples/s", "29.1k samples/s", "1.20M samples/s": three digits.
std::string samples_rate_text(double rate);

/// "02:05", or "1:02:05" from one hour on. Negative and not finite: "?".
std::string duration_text(double seconds);

/// A metric as the progress bar shows it: three significant digits, at least five characters ("0.123", "12.50", "1e-5").
std::string figure_text(double value);

}  // namespace levin
