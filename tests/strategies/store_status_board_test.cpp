#include "levin/strategies/world/store_status_board.h"

#include <catch2/catch.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "levin/strategies/host/run_segment.h"

using namespace levin;
using namespace std::chrono_literals;

TEST_CASE("a failure that a rank sees on its host, while another rank writes it down for all, ends the search for it") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->add("failure_claimed", 1);  // by the other rank, which has not come further
  const auto segment = RunSegment::create(2);
  const auto host = std::make_shared<SharedMemoryStatusBoard>(segment, 0);
  const StoreStatusBoard board(store, 0, 4, /*rank_zero_serves=*/false, host);
  REQUIRE(record_failure(*segment, {1, kBeforeFirstHook, "its process was killed"}));

  board.wait_for_failure(0ms);
  REQUIRE(board.failure().has_value());
  CHECK(board.failure()->rank == 1);
  CHECK(board.failure()->error == "its process was killed");
}
