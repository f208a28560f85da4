#pragma once

#include <functional>

#include "levin/core/export.h"

namespace levin {

/// What the main() of a program of your own returns:
///
///     int main() {
///       return levin::run_main([] {
///         levin::Trainer trainer({.max_epochs = 5});
///         …
///       });
///     }
///
/// An error that leaves `program` is shown as `levin` shows it ("error: …", and not a second time when the run has told it
/// already), in place of the C++ library's "terminate called". Returns the exit status: 0, 1 for an error of the run, 2 for a
/// wrong configuration, 128 + n after signal n.
///
/// While `program` runs, the process is levin's own: it takes signals, reports crashes and keeps memory for training
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
/// Ranks are this program, run again with the same arguments: each begins with main(), comes to this call, runs `program` as
/// run_main() does, and ends. Earlier calls of launch() do nothing in them. In the application `program` runs until it makes
/// the Trainer, whose constructor does not return; this function does, when all ranks have ended. Signals go to the ranks until
/// then. With one device, or where another launcher has started this process as a rank, `program` is simply called.
///
/// Throws what `program` throws; and, where ranks were started, Error with the first failure and the status of the run,
/// Interrupted when a signal has ended it.
LEVIN_API void launch(const std::function<void()>& program);

}  // namespace levin
