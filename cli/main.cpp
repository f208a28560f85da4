#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "levin/cli/libtorch_at_hand.h"
#include "levin/cli/setup_script.h"
#include "levin/core/base/process.h"

namespace {

// What was registered later has run by then: destructors of plug-ins, and what plug-ins and their libraries left for the end.
void end_at_once(int status, void*) { levin::end_process(status); }

// A tool that watches a process from within was loaded before LibTorch, and ends after it.
bool is_watched() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  const char* preloaded = std::getenv("LD_PRELOAD");
  return preloaded != nullptr && *preloaded != '\0';
#endif
}

}  // namespace

// The library is loaded here, and not with the program. LibTorch's OpenMP reads its environment when it is loaded; and MKL, in
// LibTorch, then ends the process when the working folder is gone, with a message that blames something else.
int main(int argc, char** argv) {
  std::error_code error;
  if (std::filesystem::current_path(error).empty()) {
    std::fputs("levin: the working folder is gone: it was deleted, or cannot be read. Change to one that exists.\n", stderr);
    return 1;
  }
  levin::shorten_openmp_waits();
  if (const std::string problem = levin::cli::load_libtorch(LEVIN_TORCH_VERSION); !problem.empty()) {
    if (argc > 1 && std::string_view(argv[1]) == "setup")
      return levin::cli::become_setup_script(LEVIN_TORCH_VERSION, {argv + 2, argv + argc});
    std::fprintf(stderr, "levin: %s.\n", problem.c_str());
    return 1;
  }
  void* const library = dlopen(LEVIN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const run = library == nullptr ? nullptr : dlsym(library, "levin_run");
  if (run == nullptr) {
    const bool is_led_astray = std::getenv("LD_LIBRARY_PATH") != nullptr;
    std::fprintf(stderr, "levin: %s%s\n", dlerror(),
                 is_led_astray ? "; does LD_LIBRARY_PATH name another LibTorch? Without it levin finds its own" : "");
    return 1;
  }
  if (!is_watched()) on_exit(end_at_once, nullptr);
  return reinterpret_cast<int (*)(int, char**)>(run)(argc, argv);
}
