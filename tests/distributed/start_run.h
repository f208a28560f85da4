#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "strategies/support/odd_listener.h"
#include "support/program.h"

namespace levin::test {

using levin_test::free_port;

/// Runs start_program without a launcher; settings are "name=value".
Command start_command(const std::filesystem::path& folder, const std::vector<std::string>& settings,
                      const Environment& environment = {});

/// The same without a choice of threads: with the defaults of levin and LibTorch.
Command with_own_threads(Command command);

/// The environment of one host of several, as when a user starts levin on it.
Environment host_environment(int node_rank, int port, const std::string& address = "127.0.0.1");

/// What a run has left behind that must not depend on what happened to it: rows of metrics.csv and rank 0's weights.
struct Left {
  std::string rows;
  std::string weights;
  bool operator==(const Left&) const = default;
};
Left left_by(const std::filesystem::path& folder);
/// The same for an undisturbed run on one host, under levin's launcher.
Left left_undisturbed(std::vector<std::string> settings = {});

/// torchrun with its environment: that of PATH, or the one that came with LibTorch. No arguments if there is none, or in `make
/// test`, which it would delay for seconds; the test then says so in one line and returns.
Command torchrun();

/// A program that the test needs, looked up in PATH; if it is missing, the test says so in one line and returns.
bool has_program(const std::string& name);

}  // namespace levin::test
