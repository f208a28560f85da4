#include "levin/strategies/host/host_cores.h"

#include <catch2/catch.hpp>
#include <initializer_list>

#include "levin/core/base/process.h"

namespace levin::test {
namespace {

RankCores rank_on(std::uint64_t host, std::initializer_list<int> cores) {
  RankCores rank{.host = host};
  for (const int core : cores) CPU_SET(core, &rank.cores);
  return rank;
}

void check(const HostCores& found, int ranks, int cores, int share) {
  CHECK(found.ranks == ranks);
  CHECK(found.cores == cores);
  CHECK(found.share == share);
}

TEST_CASE("ranks that may run on the same cores divide them") {
  const std::vector<RankCores> two = {rank_on(1, {0, 1}), rank_on(1, {0, 1})};
  check(cores_of_host(two, 0), 2, 2, 1);
  const std::vector<RankCores> three(3, rank_on(1, {0, 1, 2, 3, 4, 5, 6}));
  check(cores_of_host(three, 2), 3, 7, 2);
  const std::vector<RankCores> many(4, rank_on(1, {0, 1}));
  check(cores_of_host(many, 3), 4, 2, 1);
}

TEST_CASE("ranks that are bound to cores of their own have those") {
  const std::vector<RankCores> bound = {rank_on(1, {0}), rank_on(1, {1}), rank_on(1, {2, 3, 4, 5})};
  check(cores_of_host(bound, 0), 3, 6, 1);
  check(cores_of_host(bound, 2), 3, 6, 4);
  // Two of them in one socket, one in another.
  const std::vector<RankCores> sockets = {rank_on(1, {0, 1, 2, 3}), rank_on(1, {0, 1, 2, 3}), rank_on(1, {4, 5, 6, 7})};
  check(cores_of_host(sockets, 1), 3, 8, 2);
  check(cores_of_host(sockets, 2), 3, 8, 4);
}

TEST_CASE("ranks of other hosts have cores of the same numbers") {
  const std::vector<RankCores> hosts = {rank_on(1, {0, 1, 2}), rank_on(2, {0, 1, 2}), rank_on(2, {0, 1, 2})};
  check(cores_of_host(hosts, 0), 1, 3, 3);
  check(cores_of_host(hosts, 1), 2, 3, 1);
}

TEST_CASE("a process knows where it may run") {
  const RankCores own = RankCores::own();
  CHECK(CPU_COUNT(&own.cores) == usable_cores());
  CHECK(RankCores::own().host == own.host);
  check(cores_of_host({own}, 0), 1, usable_cores(), usable_cores());
}

}  // namespace
}  // namespace levin::test
