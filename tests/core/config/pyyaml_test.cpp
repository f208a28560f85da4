#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "levin/core/config/to_yaml.h"
#include "levin/core/config/value_json.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

std::string utf8(char32_t point) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (point < 0x80) return {byte(point)};
  const char last = byte(0x80 | (point & 0x3f));
  if (point < 0x800) return {byte(0xc0 | point >> 6), last};
  const char third = byte(0x80 | (point >> 6 & 0x3f));
  if (point < 0x10000) return {byte(0xe0 | point >> 12), third, last};
  return {byte(0xf0 | point >> 18), byte(0x80 | (point >> 12 & 0x3f)), third, last};
}

Value strings() {
  Value list(Value::List{});
  for (const char* word :
       {"null", "~", "yes", "No",  "on",   "1",    "1_000", "0x1f", "0o7", "1e3", ".5", "1:30", "2026-01-01", "=",      "<<",
        "",     " ", " a ", "- a", "a: b", "a #b", "*a",    "&a",   "!a",  "%a",  "@a", "`a",   "\xff\xfe",   "a\nb\n", "\t"}) {
    list.push_back(word);
  }
  list.push_back(std::string("a\0b", 3));
  list.push_back(std::string(5000, 'x') + " " + std::string(5000, 'y'));
  return list;
}

}  // namespace

// Registered with CTest only where a Python with PyYAML is found (see CMakeLists.txt).
TEST_CASE("PyYAML reads what levin writes", "[.pyyaml]") {
  Value characters(Value::Map{});
  std::vector<char32_t> points = {0xd7ff, 0xe000, 0xfdd0,  0xfdef,  0xfeff,  0xfffc,  0xfffd,
                                  0xfffe, 0xffff, 0x10000, 0x1fffe, 0x1f600, 0x10ffff};
  for (char32_t point = 0; point < 0x2100; ++point) points.push_back(point);
  for (const char32_t point : points)
    characters.as_map().emplace_back("a" + utf8(point) + "b", Value("a" + utf8(point) + " b"));

  Value all(Value::Map{});
  all["characters"] = characters;
  all["strings"] = strings();
  all["numbers"] =
      Value(Value::List{1.0, -0.0, 1e-5, 1e300, 5e-324, std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 7,
                        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), true, Value()});
  all["empty"] = Value(Value::List{Value(Value::Map{}), Value(Value::List{})});
  all["\xff"][std::string(3000, 'k')]["\"\n"]["<<"]["$x"] = "deep";

  const TemporaryFolder folder;
  std::ofstream(folder / "all.yaml", std::ios::binary) << to_yaml(all);
  std::ofstream(folder / "all.json", std::ios::binary) << to_json(all);
  const char* python = std::getenv("LEVIN_YAML_PYTHON");
  REQUIRE(python != nullptr);
  const std::string command = std::string(python) + " " LEVIN_SOURCE_DIR "/tests/core/config/read_with_pyyaml.py " +
                              (folder / "all.yaml").string() + " " + (folder / "all.json").string();
  CHECK(std::system(command.c_str()) == 0);
}
