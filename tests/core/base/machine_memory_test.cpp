#include "levin/core/base/machine_memory.h"

#include <catch2/catch.hpp>
#include <sstream>

TEST_CASE("what /proc/meminfo says is read by its names, in bytes") {
  std::istringstream meminfo(
      "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\nHugePages_Total:       0\nlast line without");
  std::map<std::string, double> memory = levin::machine_memory(meminfo);
  CHECK(memory.size() == 3);
  CHECK(memory["MemTotal"] == 16777216.0 * 1024);
  CHECK(memory["MemAvailable"] == 8388608.0 * 1024);
  CHECK(memory["HugePages_Total"] == 0);
  std::istringstream nothing("no such table\n");
  CHECK(levin::machine_memory(nothing).empty());
}
