#include <dlfcn.h>

#include <cstdio>

#include "levin/core/openmp_waits.h"

// The library is loaded here, and not with the program: LibTorch's OpenMP reads its environment when it is loaded.
int main(int argc, char** argv) {
  levin::shorten_openmp_waits();
  void* const library = dlopen(LEVIN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const run = library == nullptr ? nullptr : dlsym(library, "levin_run");
  if (run == nullptr) {
    std::fprintf(stderr, "levin: %s\n", dlerror());
    return 1;
  }
  return reinterpret_cast<int (*)(int, char**)>(run)(argc, argv);
}
