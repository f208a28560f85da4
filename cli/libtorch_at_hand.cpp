#include "levin/cli/libtorch_at_hand.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderVariable = "LEVIN_TORCH";
constexpr const char* kLibrary = "libtorch_cpu.so";

/// The first version of three numbers in the text: "2.13.0" of "__version__ = '2.13.0+cu130'".
std::string first_version(std::string_view text) {
  constexpr std::string_view kDigitsAndDots = "0123456789.";
  const std::size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_first_not_of(kDigitsAndDots, begin) - begin));
}

/// The folder of a library that is loaded, without its lib/.
fs::path folder_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) return {};
  return fs::path(map->l_name).parent_path().parent_path();
}

void* load(const fs::path& library) { return dlopen(library.c_str(), RTLD_LAZY | RTLD_GLOBAL); }

std::string advice(const std::string& version) {
  return "install torch==" + version + " from PyPI next to levin, run `levin setup`, or name its folder with " +
         kFolderVariable;
}

}  // namespace

std::string libtorch_version(const fs::path& folder) {
  for (const char* name : {"version.py", "build-version"}) {
    std::ifstream file(folder / name);
    for (std::string line; std::getline(file, line);) {
      if (name == std::string_view("build-version") || line.starts_with("__version__")) return first_version(line);
    }
  }
  return "";
}

std::vector<fs::path> libtorch_folders_of_setup(const std::string& version) {
  const char* cache = std::getenv("LEVIN_CACHE");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr) {
    folder = fs::path(home) / ".cache/levin";
  } else {
    return {};
  }
  return {folder / ("torch-" + version + "-cuda/torch"), folder / ("torch-" + version + "-cpu/torch")};
}

std::string load_libtorch(const std::string& built_for) {
  const char* named = std::getenv(kFolderVariable);
  const bool is_named = named != nullptr && *named != '\0';
  // A sentence about versions is worth more than the linker's, so it comes before anything is loaded, where the folder is
  // known.
  const auto problem_of = [&](const fs::path& folder) -> std::string {
    const std::string version = libtorch_version(folder);
    if (version.empty() || version == built_for) return "";
    return "this levin was built for LibTorch " + built_for + ", and " + folder.string() + " has " + version +
           ": install the same version (`pip install torch==" + built_for + "`), or a levin that was built for " + version;
  };
  if (is_named) {
    if (std::string problem = problem_of(named); !problem.empty()) return problem;
    if (load(fs::path(named) / "lib" / kLibrary) != nullptr) return "";
    return std::string("no LibTorch can be loaded from ") + kFolderVariable + "=" + named + ": " + dlerror() +
           "; name the folder in which lib/" + kLibrary + " is";
  }
  if (void* const core = load("libc10.so"); core != nullptr) {
    if (std::string problem = problem_of(folder_of(core)); !problem.empty()) return problem;
    if (load(kLibrary) != nullptr) return "";
  } else {
    for (const fs::path& folder : libtorch_folders_of_setup(built_for)) {
      if (load(folder / "lib" / kLibrary) != nullptr) return "";
    }
  }
  return "LibTorch " + built_for + ", which this levin was built for, cannot be loaded: " + dlerror() + "; " +
         advice(built_for);
}

}  // namespace levin::cli
