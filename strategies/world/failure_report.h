#pragma once

#include <exception>
#include <optional>
#include <string>

#include "levin/core/base/hook.h"
#include "levin/strategies/host/status_board.h"

namespace levin {

/// Reports this rank's failure to all, and to torchrun. ConnectionLost, and LibTorch's errors of its groups, only mean that
/// another rank is gone or a link is lost: then it looks for that failure first, for a few seconds at most. Any other error is
/// this rank's own, and is reported at once.
///
/// Returns this rank's line when another failed first: it names that failure, and this rank's own error, if any. Unset when
/// this rank was the first.
std::optional<std::string> report_own_failure(StatusBoard& board, const Whereabouts& where,
                                              const std::exception_ptr& error) noexcept;

/// The same for a run of one process.
void report_failure_alone(const Whereabouts& where, const std::exception_ptr& error) noexcept;

}  // namespace levin
