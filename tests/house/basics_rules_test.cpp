#include "house/basics_rules.h"

#include <catch2/catch.hpp>

namespace levin::test {
namespace {

using Strings = std::vector<std::string>;

std::size_t count_of(const std::string& name, const std::string& content) { return basics_findings({name, content}).size(); }

TEST_CASE("no room does by hand what core/base does for all") {
  Strings all;
  for (const SourceFile& file : read_sources(LEVIN_SOURCE_DIR)) {
    const Strings found = basics_findings(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  CHECK(all == Strings());
}

TEST_CASE("a number that becomes part of a text with + is found") {
  CHECK(basics_findings({"data/sampler.cpp", "\n  fail(\"weight \" + std::to_string(weight));\n"}) ==
        Strings{"data/sampler.cpp:2: puts a number into a text with +: use format() of core/base/format.h"});
  CHECK(count_of("data/sampler.cpp", "text = std::to_string(sizes.size()) +\n  \" samples\";") == 1);
  CHECK(count_of("data/sampler.cpp", "text = \"of \" +\n  std::to_string(size);") == 1);
  CHECK(count_of("data/sampler.cpp", "text = std::to_string(size);  // \" + std::to_string(size)") == 0);
  CHECK(count_of("tests/data/sampler_test.cpp", "\"of \" + std::to_string(size)") == 0);
}

TEST_CASE("formatting, joining and decoding of a file's own are found") {
  CHECK(count_of("loggers/csv_text.cpp", "#include <fmt/format.h>\n") == 1);
  CHECK(count_of("loggers/csv_text.cpp", "  std::snprintf(text.data(), text.size(), \"%f\", x);\n") == 1);
  CHECK(count_of("loggers/csv_text.cpp", "  line += (line.empty() ? \"\" : \", \") + word;\n") == 1);
  CHECK(count_of("loggers/csv_text.cpp", "  line += (line.empty() ? \"'\" : \", '\") + word + \"'\";\n") == 1);
  CHECK(count_of("loggers/csv_text.cpp", "  return line.empty() ? \"\" : line + \", \";\n") == 0);
  CHECK(count_of("loggers/csv_text.cpp", "  if ((byte & 0xc0) == 0x80) ++count;\n") == 1);
  CHECK(count_of("core/base/utf8.cpp", "  if ((byte & 0xc0) == 0x80) ++count;\n") == 0);
  CHECK(count_of("strategies/store/store_client.cpp", "  header->cmsg_type = SCM_RIGHTS;\n") == 1);
}

}  // namespace
}  // namespace levin::test
