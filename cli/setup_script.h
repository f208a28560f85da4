#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace levin::cli {

/// Becomes the script of `levin setup`, which brings LibTorch of this version, with these arguments; it is a part of an
/// installed levin. Gives the exit status where it cannot be run.
inline int become_setup_script(const std::string& torch_version, const std::vector<std::string>& arguments) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto script = program.parent_path().parent_path() / "share/levin/setup_libtorch.sh";
  if (!std::filesystem::exists(script, error)) {
    std::fprintf(stderr, "levin: there is no %s: in a clone, `make setup` brings LibTorch\n", script.c_str());
    return 1;
  }
  setenv("LEVIN_TORCH_VERSION", torch_version.c_str(), /*overwrite=*/0);
  std::vector<const char*> words = {"bash", script.c_str()};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  words.push_back(nullptr);
  execvp(words[0], const_cast<char* const*>(words.data()));
  std::perror("levin: setup needs bash, which cannot be run");
  return 1;
}

}  // namespace levin::cli
