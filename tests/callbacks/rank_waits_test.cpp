#include "levin/callbacks/rank_waits.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

using namespace levin;

namespace {

using Waits = std::vector<std::vector<double>>;

void check_waits(const Waits& found, const Waits& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    CAPTURE(rank);
    CHECK_THAT(found[rank], Catch::Approx(expected[rank]).margin(1e-9));
  }
}

}  // namespace

TEST_CASE("ranks wait for the last to come") {
  // Rank 2 is late at first, then rank 0.
  check_waits(waits_of_ranks({{{1, 4}, {9, 9}}, {{2, 4}, {7, 9}}, {{4, 4}, {8, 9}}}), {{0, 0, 3}, {2, 0, 2}, {1, 0, 0}});
}

TEST_CASE("clocks of hosts that differ are corrected by when ranks continue") {
  // As above, with rank 1's clock 100 seconds ahead, and rank 2's 50 behind.
  check_waits(waits_of_ranks({{{1, 4}, {9, 9}}, {{102, 104}, {107, 109}}, {{-46, -46}, {-42, -41}}}),
              {{0, 0, 3}, {2, 0, 2}, {1, 0, 0}});
}

TEST_CASE("exchanges that some rank lacks do not count, and without any nobody waited") {
  check_waits(waits_of_ranks({{{1, 2}, {5, 5}}, {{2, 2}}}), {{0, 1}, {0, 0}});
  check_waits(waits_of_ranks({{{1, 2}}, {}}), {{0, 0}, {0, 0}});
}
