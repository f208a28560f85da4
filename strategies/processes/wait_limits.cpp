#include "levin/strategies/processes/wait_limits.h"

#include <unistd.h>

namespace levin {

void print_report(const WaitLimits& limits, const std::string& text) {
  if (limits.print) return limits.print(text);
  const std::string line = text + "\n";
  // One write: lines of several processes do not mix. Nothing can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace levin
