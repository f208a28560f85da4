#pragma once

#include <filesystem>
#include <iostream>

#include "levin/core/error.h"
#include "levin/core/trainer_options.h"

namespace levin::test {

/// Options of a quiet run of one epoch on so many ranks that logs every step and writes below `folder`.
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
  options.default_root_dir = folder;
  return options;
}

/// What main() of a user's program does: runs it, prints an error that leaves it, and gives the exit status.
template <class Program>
int run_program(const Program& program) {
  try {
    program();
  } catch (const Error& error) {
    std::cerr << error.what() << std::endl;
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace levin::test
