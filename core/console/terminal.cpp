#include "levin/core/console/terminal.h"

#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string_view>

#include "levin/core/base/environment.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

// Before main(), where a user's program could open its first file.
[[maybe_unused]] const bool opened_at_start = [] {
  open_standard_descriptors();
  return true;
}();

// Widths must not depend on whether the program called setlocale(), so the functions below use their own locale.
class Utf8Locale {
 public:
  Utf8Locale() : previous_(uselocale(shared())) {}
  ~Utf8Locale() { uselocale(previous_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  static locale_t shared() {
    static const locale_t locale = [] {
      const locale_t made = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
      return made == nullptr ? LC_GLOBAL_LOCALE : made;
    }();
    return locale;
  }
  locale_t previous_;
};

struct Extent {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

// The first character of a text that is not empty.
Extent first_character(std::string_view text) {
  const std::size_t bytes = utf8_length(text);
  if (bytes < 2) return {1, 1};
  const int columns = wcwidth(static_cast<wchar_t>(utf8_code_point(text, bytes)));
  return {bytes, columns < 0 ? 1 : static_cast<std::size_t>(columns)};
}

// The longest beginning that takes at most so many columns.
Extent beginning_of(std::string_view text, std::size_t columns) {
  const Utf8Locale locale;
  Extent beginning;
  while (beginning.bytes < text.size()) {
    const Extent next = first_character(text.substr(beginning.bytes));
    if (next.columns > columns - beginning.columns) break;
    beginning = {beginning.bytes + next.bytes, beginning.columns + next.columns};
  }
  return beginning;
}

}  // namespace

void open_standard_descriptors() noexcept {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest closed number is the one that is given; those below are open.
    if (open("/dev/null", O_RDWR) < 0) return;
  }
}

bool is_terminal(int fd) {
  // Open MPI gives each rank a terminal of no size, wherever its own output goes: into a file, perhaps.
  const bool is_of_mpirun = !environment("OMPI_COMM_WORLD_SIZE").empty() && terminal_width(fd, /*fallback=*/0) == 0;
  return isatty(fd) == 1 && !is_of_mpirun;
}

bool terminal_redraws(int fd) { return is_terminal(fd) && environment("TERM") != "dumb"; }

bool terminal_has_color(int fd) { return terminal_redraws(fd) && environment("NO_COLOR").empty(); }

TerminalSize terminal_size(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

int terminal_width(int fd, int fallback) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return fallback;
  return size.ws_col;
}

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool locale_is_utf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = environment(name);
  }
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::toupper(c); });
  return locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
}

std::size_t display_width(std::string_view text) { return beginning_of(text, std::numeric_limits<std::size_t>::max()).columns; }

std::string fit_to_width(std::string_view text, std::size_t width) {
  return std::string(text.substr(0, beginning_of(text, width).bytes));
}

std::string one_line(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

std::string TextTable::str() const {
  std::vector<std::vector<std::string>> lines = {header};
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths;
  for (auto& cells : lines) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t column = 0; column < cells.size(); ++column) {
      cells[column] = one_line(cells[column]);
      widths[column] = std::max(widths[column], display_width(cells[column]));
    }
  }
  std::string text;
  for (auto& cells : lines) {
    cells.resize(widths.size());
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - display_width(cells[column]), ' ');
      const bool right = column < align.size() && align[column] == Align::kRight;
      cells[column] = right ? padding + cells[column] : cells[column] + padding;
    }
    std::string line = join(cells, " | ");
    const std::size_t width = display_width(line);
    line.erase(line.find_last_not_of(' ') + 1);
    text += text.empty() ? format("{}\n{}", line, std::string(width, '-')) : "\n" + line;
  }
  return text;
}

namespace {

constexpr std::array<std::string_view, 9> kBlocks = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<std::string_view, 11> kAscii = {" ", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#"};

template <std::size_t N>
std::string bar_of(const std::array<std::string_view, N>& symbols, double fraction, int width) {
  constexpr int kParts = static_cast<int>(N) - 1;
  const int filled_parts = static_cast<int>(fraction * width * kParts);
  const int full = filled_parts / kParts;
  std::string bar;
  for (int cell = 0; cell < width; ++cell)
    bar += cell < full ? symbols.back() : symbols[cell == full ? filled_parts % kParts : 0];
  return bar;
}

// Shortest text that reads back to the same double, with an exponent for very small or large numbers only.
std::string exact_text(double value) {
  const double magnitude = std::abs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer;
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

// Three significant digits, exponents without leading zeros: 1e-5.
std::string rounded_text(double value) {
  std::string text = format("{:.3g}", value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text[exponent + 2] == '0') text.erase(exponent + 2, 1);
  return text;
}

/// What a line leaves out where room is short, one after the other.
enum Omission : int { kNothing, kDetails, kSamplesRate, kRate, kTimes, kBar, kCount };

/// A line but for its bar.
struct LineParts {
  std::string left;
  std::string right;
  double fraction = 0;
};

LineParts parts_of(const ProgressLine& line, int omitted, std::size_t shown_metrics, bool utf8) {
  const bool known = line.total && *line.total > 0 && line.current <= *line.total;
  const double mean_rate = line.elapsed_seconds > 0 ? static_cast<double>(line.current) / line.elapsed_seconds : 0.0;
  const double rate = line.rate.value_or(mean_rate);
  const bool has_rate = std::isfinite(rate) && rate > 0;
  LineParts parts;
  parts.fraction = known ? static_cast<double>(line.current) / static_cast<double>(*line.total) : 0.0;
  parts.left = line.description.empty() ? "" : one_line(line.description) + ": ";
  if (known) parts.left += format("{:3.0f}%", parts.fraction * 100);
  const bool has_count = omitted < kCount || !known;
  if (has_count) parts.right = format(" {}/{}", line.current, known ? std::to_string(*line.total) : "?");

  const auto figure_of = [](const auto& figure) { return format("{}={}", one_line(figure.first), one_line(figure.second)); };
  std::vector<std::string> texts;
  if (omitted < kTimes) {
    const bool knows_end = known && has_rate;
    texts.push_back(duration_text(line.elapsed_seconds) + "<" +
                    (knows_end ? duration_text(static_cast<double>(*line.total - line.current) / rate) : "?"));
  }
  if (omitted < kRate) texts.push_back((has_rate ? format("{:5.2f}", rate) : "?") + "it/s");
  if (omitted < kSamplesRate && line.samples_rate) texts.push_back(samples_rate_text(*line.samples_rate));
  if (omitted < kDetails) std::transform(line.details.begin(), line.details.end(), std::back_inserter(texts), figure_of);
  const auto metrics_end = line.metrics.begin() + static_cast<std::ptrdiff_t>(shown_metrics);
  std::transform(line.metrics.begin(), metrics_end, std::back_inserter(texts), figure_of);
  if (shown_metrics < line.metrics.size()) texts.emplace_back(utf8 ? "…" : "...");
  if (!texts.empty()) parts.right += " [" + join(texts) + "]";
  return parts;
}

std::string without_bar(const LineParts& parts) {
  const bool has_space = parts.left.ends_with(' ');
  return parts.left + parts.right.substr(has_space ? 1 : 0);
}

}  // namespace

std::string progress_bar(double fraction, int width, bool utf8) {
  fraction = std::isnan(fraction) ? 0.0 : std::clamp(fraction, 0.0, 1.0);
  width = std::max(width, 0);
  return utf8 ? bar_of(kBlocks, fraction, width) : bar_of(kAscii, fraction, width);
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e15;
  if (!(seconds >= 0 && seconds < kLongest)) return "?";
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto [hours, minutes, rest] = std::array{whole / 3600, whole / 60 % 60, whole % 60};
  return hours > 0 ? format("{}:{:02}:{:02}", hours, minutes, rest) : format("{:02}:{:02}", minutes, rest);
}

std::string figure_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  constexpr std::size_t kShortest = 5;
  const std::string exact = exact_text(value);
  std::string text = rounded_text(value);
  if (exact.size() <= text.size()) text = exact;
  if (text.find('e') != std::string::npos) return text;
  if (text.find('.') == std::string::npos && text.size() < kShortest) text += '.';
  if (text.size() < kShortest) text.append(kShortest - text.size(), '0');
  return text;
}

std::string samples_rate_text(double rate) {
  if (!std::isfinite(rate) || rate < 0) return "? samples/s";
  constexpr std::array kUnits = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  // 999.5 would be written with four digits.
  for (; rate >= 999.5 && unit + 1 < kUnits.size(); rate /= 1000) ++unit;
  if (rate >= 99.95) return format("{:.0f}{} samples/s", rate, kUnits[unit]);
  if (rate >= 9.995 || unit == 0) return format("{:.1f}{} samples/s", rate, kUnits[unit]);
  return format("{:.2f}{} samples/s", rate, kUnits[unit]);
}

std::string progress_line(const ProgressLine& line, int width, bool utf8) {
  for (int omitted = kNothing; omitted < kBar; ++omitted) {
    const LineParts parts = parts_of(line, omitted, line.metrics.size(), utf8);
    const int room = width - static_cast<int>(display_width(parts.left) + display_width(parts.right)) - 2;
    if (room >= 1) return parts.left + "|" + progress_bar(parts.fraction, room, utf8) + "|" + parts.right;
  }
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  std::size_t metrics = line.metrics.size();
  std::string text = without_bar(parts_of(line, kBar, metrics, utf8));
  if (display_width(text) > columns) text = without_bar(parts_of(line, kCount, metrics, utf8));
  while (metrics > 0 && display_width(text) > columns) text = without_bar(parts_of(line, kCount, --metrics, utf8));
  return fit_to_width(text, columns);
}

}  // namespace levin
