#include <sys/syscall.h>
#include <unistd.h>

#include "levin/cli/cli.h"

namespace {

// MKL, in LibTorch, ends the process while its library is loaded when the working folder is gone, with a message that blames
// something else. What stands in .preinit_array runs before any library's own code: system calls only.
void check_working_folder(int, char**, char**) {
  char folder[4096];
  if (syscall(SYS_getcwd, folder, sizeof folder) >= 0) return;
  constexpr char kMessage[] =
      "levin: the folder that this was started in is gone: it was deleted, or cannot be read. Change to one that exists.\n";
  syscall(SYS_write, STDERR_FILENO, kMessage, sizeof kMessage - 1);
  syscall(SYS_exit_group, 1);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)(int, char**, char**) = check_working_folder;

}  // namespace

int main(int argc, char** argv) { return levin::cli::run(argc, argv); }
