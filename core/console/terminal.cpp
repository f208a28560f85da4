#include "levin/core/console/terminal.h"

#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <limits>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

// Before main(), where a user's program could open its first file.
[[maybe_unused]] const bool opened_at_start = [] {
  open_standard_descriptors();
  return true;
}();

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Widths must not depend on whether the program called setlocale(), so the functions below use a locale of their own.
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
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
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

}  // namespace levin
