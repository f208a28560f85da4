#include <catch2/catch.hpp>

#include "levin/callbacks/monitoring.h"

// Made with Lightning's get_human_readable_count.
TEST_CASE("counts are shortened like Lightning's") {
  using levin::detail::abbreviated_count;
  CHECK(abbreviated_count(0) == "0");
  CHECK(abbreviated_count(123) == "123");
  CHECK(abbreviated_count(999) == "999");
  CHECK(abbreviated_count(1000) == "1.0 K");
  CHECK(abbreviated_count(1234) == "1.2 K");
  CHECK(abbreviated_count(99900) == "99.9 K");
  CHECK(abbreviated_count(123456) == "123 K");
  CHECK(abbreviated_count(999999) == "999 K");
  CHECK(abbreviated_count(2000000) == "2.0 M");
  CHECK(abbreviated_count(3000000000) == "3.0 B");
  CHECK(abbreviated_count(400000000000000) == "400 T");
  CHECK(abbreviated_count(5000000000000000) == "5,000 T");
}

TEST_CASE("types are shown without namespaces and LibTorch's suffix") {
  using levin::detail::short_type_name;
  CHECK(short_type_name("torch::nn::LinearImpl") == "Linear");
  CHECK(short_type_name("torch::nn::SequentialImpl") == "Sequential");
  CHECK(short_type_name("(anonymous namespace)::Net") == "Net");
  CHECK(short_type_name("mine::Block<torch::nn::LinearImpl, 3>") == "Block");
  CHECK(short_type_name("Impl") == "Impl");
}
