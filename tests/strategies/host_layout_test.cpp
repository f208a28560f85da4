#include "levin/strategies/transport/host_layout.h"

#include <catch2/catch.hpp>

using levin::host_layout;
using levin::HostLayout;

TEST_CASE("hosts with as many ranks each, one host's after the other's, are told") {
  CHECK(host_layout({"a", "a", "b", "b"}) == HostLayout{.hosts = 2, .ranks_per_host = 2});
  CHECK(host_layout({"b", "b", "a", "a", "c", "c"}) == HostLayout{.hosts = 3, .ranks_per_host = 2});
  CHECK(host_layout({"a", "a", "a"}) == HostLayout{.hosts = 1, .ranks_per_host = 3});
  CHECK(host_layout({"a", "b"}) == HostLayout{.hosts = 2, .ranks_per_host = 1});
  const HostLayout layout{.hosts = 3, .ranks_per_host = 4};
  CHECK(layout.host_of(7) == 1);
  CHECK(layout.place_of(7) == 3);
  CHECK(layout.first_rank_of(2) == 8);
}

TEST_CASE("hosts with other numbers of ranks, or whose ranks are mixed, have no layout") {
  CHECK_FALSE(host_layout({"a", "a", "b"}));
  CHECK_FALSE(host_layout({"a", "b", "a", "b"}));
  CHECK_FALSE(host_layout({"a", "b", "b", "b"}));
  CHECK_FALSE(host_layout({"a", "a", "b", "b", "a", "a"}));
  CHECK_FALSE(host_layout({"a", "b", "b", "a"}));
  CHECK_FALSE(host_layout({}));
}
