// The levin program (cli/main.cpp), loaded once for many starts: see copied_program.h.
#include <dlfcn.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "levin/core/base/process.h"
#include "support/copied_program.h"

namespace {

/// Sets the limits that a test gives a copy, as `ulimit` does.
void limit(int resource, const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return;
  const rlim_t most = std::strtoull(text, nullptr, 10);
  const rlimit both{most, most};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  levin::shorten_openmp_waits();
  void* const library = dlopen(LEVIN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const run = library == nullptr ? nullptr : dlsym(library, "levin_run");
  if (run == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  levin::test::become_copy(argc, argv);
  limit(RLIMIT_AS, "LEVIN_TEST_ADDRESS_SPACE");
  limit(RLIMIT_CPU, "LEVIN_TEST_CPU_SECONDS");
  on_exit([](int status, void*) { levin::end_process(status); }, nullptr);
  return reinterpret_cast<int (*)(int, char**)>(run)(argc, argv);
}
