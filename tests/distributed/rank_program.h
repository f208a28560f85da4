#pragma once

#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "distributed/rank_report.h"
#include "levin/cli/run_main.h"
#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/trainer_options.h"
#include "levin/strategies/launch/rank_start.h"
#include "support/copied_program.h"

namespace levin::test {

/// Options of a quiet run of one epoch on so many ranks that logs every step and writes below `folder`; loaders may give
/// every rank the same.
inline TrainerOptions rank_options(int ranks, const std::filesystem::path& folder) {
  TrainerOptions options;
  options.max_epochs = 1;
  options.accelerator = "cpu";
  options.devices = Devices(ranks);
  options.logger = false;
  options.enable_checkpointing = false;
  options.enable_progress_bar = false;
  options.enable_model_summary = false;
  options.num_sanity_val_steps = 0;
  options.log_every_n_steps = 1;
  options.use_distributed_sampler = false;
  options.allow_same_batches = true;
  options.default_root_dir = folder;
  return options;
}

/// What main() of a user's program does: runs it, prints an error that leaves it, and gives the exit status. Ranks begin here,
/// as those of the levin program, and without loading LibTorch again.
template <class Program>
int status_of(const Program& program) {
  start_ranks_here();
  int status = 0;
  run_main([&] {
    try {
      program();
    } catch (const Error& error) {
      std::cerr << std::string(error.what()) + "\n";  // in one piece, so that lines of several ranks do not mix
      status = error.exit_code();
    } catch (const std::exception& error) {
      std::cerr << std::string(error.what()) + "\n";  // in one piece, so that lines of several ranks do not mix
      status = 1;
    } catch (...) {
      std::terminate();  // as for an uncaught exception
    }
  });
  return status;
}
template <class Program>
[[noreturn]] void run_program(const Program& program) {
  end_process(status_of(program));
}

/// A program of rank_programs, which its first argument names: other sources hold others, so that LibTorch's headers are read
/// once for all of them. Each has its own namespace.
///
///     const RankProgram program("trainer", {{"samples", samples}, {"shards", shards}});
class RankProgram {
 public:
  using Run = void (*)(const Settings&);
  RankProgram(const char* name, Run run);
  /// One that does what scenario= names.
  RankProgram(const char* name, const std::map<std::string, Run>& scenarios);
};

}  // namespace levin::test
