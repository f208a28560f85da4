#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "levin/core/openmp_waits.h"

namespace {

// Of any length.
bool has_working_folder() {
  char* const folder = get_current_dir_name();
  const bool found = folder != nullptr;
  std::free(folder);
  return found;
}

}  // namespace

// The library is loaded here, and not with the program. LibTorch's OpenMP reads its environment when it is loaded; and MKL, in
// LibTorch, then ends the process when the working folder is gone, with a message that blames something else.
int main(int argc, char** argv) {
  if (!has_working_folder()) {
    std::fputs(
        "levin: the folder that this was started in is gone: it was deleted, or cannot be read. Change to one that exists.\n",
        stderr);
    return 1;
  }
  levin::shorten_openmp_waits();
  void* const library = dlopen(LEVIN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const run = library == nullptr ? nullptr : dlsym(library, "levin_run");
  if (run == nullptr) {
    std::fprintf(stderr, "levin: %s\n", dlerror());
    return 1;
  }
  return reinterpret_cast<int (*)(int, char**)>(run)(argc, argv);
}
