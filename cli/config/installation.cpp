#include "levin/cli/config/installation.h"

#include <system_error>

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// The folder above that of the program.
fs::path prefix() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
}

}  // namespace

fs::path cmake_folder() {
  std::error_code ignored;
  const fs::path installed = prefix() / "lib/cmake/levin";
  return fs::exists(installed, ignored) ? installed : prefix();
}

fs::path plugin_folder() { return prefix() / "lib/levin/plugins"; }

}  // namespace levin::cli
