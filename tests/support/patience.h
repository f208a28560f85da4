#pragma once

#include <chrono>

namespace levin::test {

/// How long a test waits for what takes `plenty` on a quiet machine of today, before it takes it for hung: LEVIN_TEST_PATIENCE
/// of tests/CMakeLists.txt times as long.
std::chrono::seconds patience(std::chrono::seconds plenty);

}  // namespace levin::test
