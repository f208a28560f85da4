#pragma once

#include <optional>

#include "levin/core/base/fwd.h"

namespace levin {

/// For programs with a main() of their own: ranks that the Trainer starts (`devices: N`) begin with this call, in a copy of
/// this process as it is now, and need not load the program and LibTorch again, which takes most of their start. Without it
/// they begin with main(), and what comes before the Trainer is done in each of them either way. The levin program has it.
///
/// Call it first in main(), before threads are started and files opened. True in such a rank, whose environment then says which
/// it is; false in the process that the user started, and where ranks cannot begin here: they then begin with main().
LEVIN_API bool start_ranks_here();

/// The number of the levin::launch() in whose ranks this process is one; unset where levin has not started it as a rank.
LEVIN_API std::optional<int> launch_of_this_rank();

/// Lets the console carry this process's rank from here on, before a Trainer exists: the rank that a launcher's variables tell.
/// Without a launcher, or with variables that make no sense, nothing changes; the Trainer says what is wrong with them.
LEVIN_API void introduce_rank();

}  // namespace levin
