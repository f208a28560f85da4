#pragma once

#include "levin/strategies/processes/run_board.h"

namespace levin {

/// Makes this rank's failure known to all, and to torchrun. An error that only says that the connection to another rank is lost
/// is the echo of that rank's end: then its failure is looked for first, for at most half a second.
void report_own_failure(RunBoard& board, const Whereabouts& where, const std::string& error) noexcept;

}  // namespace levin
