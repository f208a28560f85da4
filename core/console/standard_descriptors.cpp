#include "levin/core/console/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

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

}  // namespace levin
