#pragma once

#include "levin/core/export.h"

namespace levin::cli {

/// The whole `levin` program: reads the command line and YAML, makes the parts by name and runs the sub-command. A program of
/// your own that links its modules calls it from main(): `int main(int argc, char** argv) { return levin::cli::run(argc, argv);
/// }`. Returns the exit status: 0, 1 for an error of the run, 2 for a wrong configuration, 128 + n after signal n.
LEVIN_API int run(int argc, char** argv);

}  // namespace levin::cli

/// The same, for the levin program, which loads the library and finds this by its name.
extern "C" LEVIN_API int levin_run(int argc, char** argv);
