#pragma once

#include <string>

#include "levin/cli/command_line.h"
#include "levin/cli/run_config.h"

namespace levin::cli {

/// `levin bench comm`: what collectives take among the ranks that `trainer:` asks for. Ranks: all.
void bench_comm(const CommandLine& line, const RunConfig& config);

/// `levin bench ddp`: what the parts of a training step take on each rank, and with which buckets. Ranks: all.
void bench_ddp(const CommandLine& line, const RunConfig& config);

/// Writes a file whole, or throws IoError.
void write_bench_file(const std::string& file, const std::string& text);

}  // namespace levin::cli
