#include "levin/core/base/text.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace levin::test {
namespace {

TEST_CASE("join puts the separator between parts only") {
  CHECK(join(std::vector<std::string>{}) == "");
  CHECK(join(std::vector<std::string>{"a"}) == "a");
  CHECK(join(std::vector<std::string>{"a", "", "c"}) == "a, , c");
  CHECK(join(std::vector<const char*>{"a", "b"}, "|") == "a|b");
}

TEST_CASE("join takes the text of a part from a function or a member") {
  const std::vector<std::pair<std::string, int>> parts = {{"a", 1}, {"b", 2}};
  CHECK(join(parts, " and ", &std::pair<std::string, int>::first) == "a and b");
  CHECK(join(parts, " ", [](const auto& part) { return std::to_string(part.second); }) == "1 2");
}

TEST_CASE("a counted noun takes an s unless there is one") {
  CHECK(counted(0, "key") == "0 keys");
  CHECK(counted(1, "key") == "1 key");
  CHECK(counted(2, "key") == "2 keys");
}

}  // namespace
}  // namespace levin::test
