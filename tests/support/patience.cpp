#include "support/patience.h"

namespace levin::test {

std::chrono::seconds patience(std::chrono::seconds plenty) { return plenty * LEVIN_TEST_PATIENCE; }

}  // namespace levin::test
