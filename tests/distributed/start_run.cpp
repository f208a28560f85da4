#include "distributed/start_run.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "support/file_text.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {

Command start_command(const std::filesystem::path& folder, const std::vector<std::string>& settings,
                      const Environment& environment) {
  Command command;
  command.arguments = {LEVIN_BINARY_DIR "/bin/rank_programs", "start", "folder=" + folder.string()};
  command.arguments.insert(command.arguments.end(), settings.begin(), settings.end());
  command.environment = environment;
  command.environment.emplace_back("OMP_NUM_THREADS", "1");
  command.copied = true;
  return command;
}

Command with_own_threads(Command command) {
  command.environment.emplace_back("OMP_NUM_THREADS", "");
  command.copied = false;  // OpenMP reads it when it is loaded
  return command;
}

Environment host_environment(int node_rank, int port, const std::string& address) {
  return {{"NODE_RANK", std::to_string(node_rank)}, {"MASTER_ADDR", address}, {"MASTER_PORT", std::to_string(port)}};
}

Left left_by(const std::filesystem::path& folder) {
  return {read_text(folder / "logs/version_0/metrics.csv"), read_text(folder / "weights_0")};
}

Left left_undisturbed(std::vector<std::string> settings) {
  const TemporaryFolder folder;
  settings.insert(settings.begin(), "ranks=2");
  const Outcome outcome = run(start_command(folder.path(), settings));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return left_by(folder.path());
}

Command torchrun() {
  if (!is_whole_matrix()) {
    WARN("not tested in the sample: torchrun takes seconds to load");
    return {};
  }
  const std::filesystem::path own = LEVIN_TORCH_PACKAGES "/bin/torchrun";
  Command command;
  if (has_program("torchrun")) {
    command.arguments = {"torchrun"};
  } else if (std::filesystem::exists(own)) {
    command.environment = {{"PYTHONPATH", LEVIN_TORCH_PACKAGES}};
    command.arguments = {own.string(), "--help"};
    // A package that was installed only for its LibTorch lacks what Python's torch loads.
    const bool works = run(command).ok();
    if (!works) WARN("not tested: " << own << " does not work here");
    command.arguments = works ? std::vector{own.string()} : std::vector<std::string>();
  }
  if (!command.arguments.empty()) {
    command.arguments.insert(command.arguments.end(), {"--no-python", "--standalone", "--nproc-per-node=2"});
  }
  return command;
}

bool has_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
  }
  WARN("not tested: there is no " << name << " here");
  return false;
}

}  // namespace levin::test
