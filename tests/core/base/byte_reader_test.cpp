#include "levin/core/base/byte_reader.h"

#include <catch2/catch.hpp>
#include <vector>

namespace levin::test {
namespace {

TEST_CASE("what was appended is read again, from texts and from bytes") {
  std::string text;
  std::vector<std::byte> bytes;
  const auto fill = [](auto& into) {
    append_number(into, std::uint8_t{7});
    append_text(into, std::string_view("a\0b", 3));
    append_number(into, -2.5);
    append_text(into, "");
  };
  fill(text);
  fill(bytes);
  CHECK(text.size() == 1 + 4 + 3 + 8 + 4);
  for (ByteReader reader : {ByteReader(text, "short"), ByteReader(bytes, "short")}) {
    CHECK(reader.number<std::uint8_t>() == 7);
    CHECK(reader.text() == std::string("a\0b", 3));
    CHECK(reader.number<double>() == -2.5);
    CHECK(reader.left() == 4);
    CHECK(reader.text().empty());
    CHECK(reader.left() == 0);
  }
}

TEST_CASE("nothing is read beyond what there is") {
  const std::string three = "abc";
  CHECK_THROWS_WITH(ByteReader(three, "it ends too early").number<std::uint32_t>(), "it ends too early");
  std::string text;
  append_number(text, std::uint32_t{4000000000});
  CHECK_THROWS_AS(ByteReader(text, "it ends too early").text(), DesyncError);
}

}  // namespace
}  // namespace levin::test
