#pragma once

#include <functional>

#include "levin/core/base/fwd.h"

namespace levin {

/// What the main() of your own program returns:
///
///     int main() {
///       return levin::run_main([] {
///         levin::Trainer trainer({.max_epochs = 5});
///         …
///       });
///     }
///
/// An error that leaves `program` is shown as `levin` shows it ("error: …", and not a second time when the run has
/// reported it already), instead of the C++ library's "terminate called". Returns the exit status: 0, 1 for an error of the
/// run, 2 for a wrong configuration, 128 + n after signal n.
///
/// While `program` runs, the process is levin's own: it takes signals, reports crashes and reserves memory for training
/// (ProcessOptions), and Trainers may start ranks.
LEVIN_API int run_main(const std::function<void()>& program);

/// Permits the Trainers that `program` makes in this thread to start ranks (`devices: N`) in an application that levin does not
/// own:
///
///     int main(int argc, char** argv) {
///       Application application(argc, argv);
///       levin::launch([&] {
///         levin::Trainer trainer({.devices = 2});
///         …
///       });
///       …
///     }
///
/// Ranks are this program, run again with the same arguments: each begins with main(), reaches this call, runs `program` as
/// run_main() does, and ends. Earlier calls of launch() do nothing in them. In the application `program` runs until it makes
/// the Trainer, whose constructor does not return; this function does, when all ranks have ended. Signals go to the ranks until
/// then. With one device, or where another launcher has started this process as a rank, `program` is simply called.
///
/// Throws what `program` throws; and, where ranks were started, Error with the first failure and the status of the run,
/// Interrupted when a signal has ended it.
LEVIN_API void launch(const std::function<void()>& program);

}  // namespace levin

namespace levin::cli {

/// The whole `levin` program: reads the command line and YAML, makes the parts by name and runs the sub-command. A program
/// that links its modules calls it from main(): `int main(int argc, char** argv) { return levin::cli::run(argc, argv);
/// }`. Returns the exit status: 0, 1 for an error of the run, 2 for a wrong configuration, 128 + n after signal n.
LEVIN_API int run(int argc, char** argv);

}  // namespace levin::cli

/// The same, for the levin program, which loads the library and finds this by its name.
extern "C" LEVIN_API int levin_run(int argc, char** argv);
