#pragma once

#include <optional>
#include <string>

#include "levin/strategies/processes/run_board.h"

namespace levin {

/// Makes this rank's failure known to all, and to torchrun. An error that only says that the connection to another rank is lost
/// is the echo of that rank's end, or of a lost link: then its failure is looked for first, for a few seconds at most.
///
/// Gives what this rank has to say when another was first to fail: one line that names that failure, and this rank's own error
/// where it has one. Nothing when this rank was the first.
std::optional<std::string> report_own_failure(RunBoard& board, const Whereabouts& where, const std::string& error) noexcept;

}  // namespace levin
