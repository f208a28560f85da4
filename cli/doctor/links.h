#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/cli/doctor/finding.h"

namespace levin::cli {

/// What two ranks of this host say to one another: `bench` is the program, with its words, that writes the table of
/// `levin bench comm` to the file behind its last word, `--csv`. It is ended after so many seconds.
Findings rank_findings(const std::vector<std::string>& bench, double seconds);
/// The words of that program: this one, without what the environment says of ranks and configurations.
std::vector<std::string> rank_bench();

/// The network interfaces that have addresses.
Findings interface_findings();
/// What the host's name leads to; `error` says why it leads nowhere.
Findings host_name_findings(const std::string& host, const std::vector<std::string>& addresses, const std::string& error);
/// The same, as this host's resolver answers.
Findings own_host_name_findings();

}  // namespace levin::cli
