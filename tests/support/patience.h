#pragma once

#include <chrono>

namespace levin::test {

/// How long a test waits before it assumes a hang, for work that takes at most `plenty` on an idle machine of today:
/// LEVIN_TEST_PATIENCE of tests/CMakeLists.txt times as long.
std::chrono::seconds patience(std::chrono::seconds plenty);

}  // namespace levin::test
