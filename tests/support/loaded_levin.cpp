// The levin program (cli/main.cpp), loaded once for many starts: see copied_program.h.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "levin/core/base/end_process.h"
#include "levin/core/base/openmp_waits.h"
#include "support/copied_program.h"

int main(int argc, char** argv) {
  levin::shorten_openmp_waits();
  void* const library = dlopen(LEVIN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const run = library == nullptr ? nullptr : dlsym(library, "levin_run");
  if (run == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  levin::test::become_copy(argc, argv);
  on_exit([](int status, void*) { levin::end_process(status); }, nullptr);
  return reinterpret_cast<int (*)(int, char**)>(run)(argc, argv);
}
