#pragma once

#include <vector>

#include "levin/cli/config/command_line.h"
#include "levin/cli/config/subcommand.h"

/// The table of commands, in the order of `levin --help`. NAME_subcommand() is defined in commands/NAME_command.cpp, or in
/// commands/torch where it needs LibTorch; fit, validate, test, predict and check are in run_command.cpp. Help, completion
/// and the manual page follow.
#define LEVIN_SUBCOMMANDS(row)                                                                                              \
  row(fit) row(validate) row(test) row(predict) row(tune) row(check) row(list) row(schema) row(new) row(setup) row(inspect) \
      row(export) row(runs) row(sweep) row(report) row(shards) row(tokens) row(bench) row(doctor) row(completion) row(man)

namespace levin::cli {

#define LEVIN_DECLARE_SUBCOMMAND(name) Subcommand name##_subcommand();
LEVIN_SUBCOMMANDS(LEVIN_DECLARE_SUBCOMMAND)
#undef LEVIN_DECLARE_SUBCOMMAND

/// All of them.
inline std::vector<Subcommand> subcommands() {
#define LEVIN_MAKE_SUBCOMMAND(name) name##_subcommand(),
  return {LEVIN_SUBCOMMANDS(LEVIN_MAKE_SUBCOMMAND)};
#undef LEVIN_MAKE_SUBCOMMAND
}

}  // namespace levin::cli
