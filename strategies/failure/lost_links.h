#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace levin {

/// The addresses of hosts that this process has connections to, and that do not answer any more: not the program there, which
/// may be stopped or busy, but the host itself. Asks them for at most `patience`, which must be some seconds; where no
/// connection leaves this host there is nobody to ask, and no wait.
std::vector<std::string> unanswering_hosts(std::chrono::milliseconds patience = std::chrono::milliseconds(4000)) noexcept;

/// "the connection to host 10.0.0.2 was lost"; empty when `hosts` is.
std::string lost_connection_text(const std::vector<std::string>& hosts);

}  // namespace levin
