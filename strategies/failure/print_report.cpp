#include "levin/strategies/failure/print_report.h"

#include <unistd.h>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"

namespace levin {

void print_report(const std::string& text) {
  if (Console::instance().hand_to_sink(LogLevel::kError, text)) return;
  // A progress bar may stand on the terminal's last line.
  const std::string line = format("{}{}\n", isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", text);
  // One write: lines of several processes do not mix. Nothing can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void print_failure(const FailureRecord& failure) noexcept {
  if (!OwnProcess::is_one()) return;
  try {
    print_report("levin: " + failure.str());
  } catch (const std::exception&) {
    // Out of memory: the record itself needs none.
  }
}

}  // namespace levin
