#pragma once

#include <optional>

#include "levin/core/base/fwd.h"

namespace levin {

/// For programs with their own main(): ranks that the Trainer starts (`devices: N`) begin at this call, in a copy of this
/// process, and need not load the program and LibTorch again, which takes most of their start. Without the call they begin with
/// main(). Either way each of them runs the code before the Trainer. The levin program calls it.
///
/// Call it first in main(), before you start threads or open files. Returns true in such a rank, whose environment then has its
/// rank; false in the process that the user started, and where ranks cannot begin here and begin with main().
LEVIN_API bool start_ranks_here();

/// The number of the levin::launch() that started this process as a rank; unset: none.
LEVIN_API std::optional<int> launch_of_this_rank();

/// Makes the console show this process's rank before a Trainer exists, from a launcher's variables. Does nothing without a
/// launcher or with wrong variables, which the Trainer reports.
LEVIN_API void introduce_rank();

}  // namespace levin
