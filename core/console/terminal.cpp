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

#include "levin/core/base/text.h"

namespace levin {
namespace {

// Before main(), where a user's program could open its first file.
[[maybe_unused]] const bool opened_at_start = [] {
  open_standard_descriptors();
  return true;
}();

}  // namespace

void open_standard_descriptors() noexcept {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest closed number is the one that is given; those below are open.
    if (open("/dev/null", O_RDWR) < 0) return;
  }
}

namespace {

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

struct Character {
  std::size_t bytes;
  std::size_t columns;
};

// The first character of a text that is not empty.
Character first_character(std::string_view text) {
  const std::size_t bytes = utf8_length(text);
  if (bytes < 2) return {1, 1};
  const int columns = wcwidth(static_cast<wchar_t>(utf8_code_point(text, bytes)));
  return {bytes, columns < 0 ? 1 : static_cast<std::size_t>(columns)};
}

}  // namespace

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
  std::string locale = environment("LC_ALL");
  if (locale.empty()) locale = environment("LC_CTYPE");
  if (locale.empty()) locale = environment("LANG");
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::toupper(c); });
  return locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
}

std::size_t display_width(std::string_view text) {
  const Utf8Locale locale;
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += character.columns;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string fit_to_width(std::string_view text, std::size_t width) {
  const Utf8Locale locale;
  std::size_t used = 0;
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const Character character = first_character(text.substr(bytes));
    if (used + character.columns > width) break;
    used += character.columns;
    bytes += character.bytes;
  }
  return std::string(text.substr(0, bytes));
}

}  // namespace levin
