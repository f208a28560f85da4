#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "levin/cli/libtorch_at_hand.h"
#include "levin/core/base/process.h"

namespace {

// What was registered later has run by then: destructors of plug-ins, and what they and whoever they use left for the end.
void end_at_once(int status, void*) { levin::end_process(status); }

// Whoever watches a process from within was there before LibTorch, and has its turn after it.
bool is_watched() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  const char* preloaded = std::getenv("LD_PRELOAD");
  return preloaded != nullptr && *preloaded != '\0';
#endif
}

/// `levin setup`: the script that brings LibTorch, with the rest of the command line. Returns when it cannot be run.
void run_setup(char** arguments) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string script = (program.parent_path().parent_path() / "share/levin/setup_libtorch.sh").string();
  setenv("LEVIN_TORCH_VERSION", LEVIN_TORCH_VERSION, /*overwrite=*/0);
  std::vector<char*> words = {const_cast<char*>("bash"), const_cast<char*>(script.c_str())};
  while (*arguments != nullptr) words.push_back(*arguments++);
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "levin: setup needs bash, which cannot be run\n");
}

}  // namespace

// The library is loaded here, and not with the program. LibTorch's OpenMP reads its environment when it is loaded; and MKL, in
// LibTorch, then ends the process when the working folder is gone, with a message that blames something else.
int main(int argc, char** argv) {
  std::error_code error;
  if (std::filesystem::current_path(error).empty()) {
    std::fputs(
        "levin: the folder that this was started in is gone: it was deleted, or cannot be read. Change to one that exists.\n",
        stderr);
    return 1;
  }
  // It works where nothing else does: LibTorch is what it brings.
  if (argc > 1 && std::string_view(argv[1]) == "setup") {
    run_setup(argv + 2);
    return 1;
  }
  levin::shorten_openmp_waits();
  if (const std::string problem = levin::cli::load_libtorch(LEVIN_TORCH_VERSION); !problem.empty()) {
    std::fprintf(stderr, "levin: %s.\n", problem.c_str());
    return 1;
  }
  void* const library = dlopen(LEVIN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const run = library == nullptr ? nullptr : dlsym(library, "levin_run");
  if (run == nullptr) {
    std::fprintf(stderr, "levin: %s\n", dlerror());
    return 1;
  }
  if (!is_watched()) on_exit(end_at_once, nullptr);
  return reinterpret_cast<int (*)(int, char**)>(run)(argc, argv);
}
