#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace levin::cli {

/// The file of the program that runs now.
std::filesystem::path own_program();

/// Starts a program without a shell, in its own process group: `words` are its file and its arguments. It reads from and
/// prints to these descriptors. It gets SIGTERM when the thread that called this ends. `variable`: of its
/// environment, in addition to those of this process, "NAME=value"; empty: none. Throws IoError.
pid_t start_child(const std::vector<std::string>& words, int input, int output, int errors, const std::string& variable = "");
/// The same; what it prints is added to the file `output`, and it can read nothing.
pid_t start_child(const std::vector<std::string>& words, const std::filesystem::path& output, const std::string& variable = "");

/// The exit status of a child that has ended, 128 + n after signal n; nothing while it runs.
std::optional<int> status_if_ended(pid_t child);

}  // namespace levin::cli
