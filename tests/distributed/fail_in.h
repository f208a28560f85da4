#pragma once

#include <string>

namespace levin::test {

/// Fails in a manner: throw, throw_own (an error that names the rank), throw_gloo (one that sounds like a lost connection),
/// throw_object, memory, abort, segfault, exit, sigkill, sigterm, sigusr1, sigusr2, sigstop or loop. Returns from sigterm,
/// sigusr1 and sigusr2, and from any other name, only.
void fail_in(const std::string& manner, int rank = 0);

}  // namespace levin::test
