#include "levin/callbacks/memory_growth.h"

#include <catch2/catch.hpp>
#include <vector>

using levin::MemoryGrowth;

namespace {

MemoryGrowth after(const std::vector<std::int64_t>& in_use) {
  MemoryGrowth growth(10);
  for (const std::int64_t bytes : in_use) growth.add(bytes);
  return growth;
}

}  // namespace

TEST_CASE("memory that grows in each epoch is counted from where it began") {
  const MemoryGrowth growth = after({100, 90, 110, 130, 155});
  CHECK(growth.epochs() == 3);
  CHECK(growth.bytes() == 65);
  CHECK(growth.in_use() == 155);
  CHECK(after({}).epochs() == 0);
  CHECK(after({100}).epochs() == 0);
  CHECK(after({0, 20}).epochs() == 1);
}

TEST_CASE("what is allocated once, what stops growing, and what comes and goes is no growth") {
  CHECK(after({100, 1000, 1000, 1000}).epochs() == 0);
  CHECK(after({100, 120, 140, 140}).epochs() == 0);
  CHECK(after({100, 120, 110, 130, 120}).epochs() == 0);
  CHECK(after({100, 109, 118, 127}).epochs() == 0);
}

TEST_CASE("growth that becomes much smaller, or much larger, begins anew") {
  CHECK(after({0, 100, 200, 300, 320}).epochs() == 1);
  CHECK(after({0, 20, 40, 60, 300}).epochs() == 1);
  CHECK(after({0, 100, 130, 160}).epochs() == 3);
}
