#include "levin/cli/annotated_yaml.h"

#include <catch2/catch.hpp>

#include "levin/cli/yaml_reader.h"
#include "levin/core/yaml/to_yaml.h"

using levin::Value;
using levin::cli::SourceText;
using levin::cli::YamlPath;

namespace {

Value read(const std::string& text) { return levin::cli::read_yaml(SourceText("run.yaml", text)); }

std::string path_as_comment(const YamlPath& path) {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : ".") + part;
  return text;
}

}  // namespace

TEST_CASE("comments stand above their keys, with the same indent") {
  const Value value = read("a: 1\nb:\n  c: [x, {d: 1.0, e: {f: null}}, []]\n  g: {}\n");
  CHECK(levin::cli::annotated_yaml(value, path_as_comment) ==
        "# a\n"
        "a: 1\n"
        "# b\n"
        "b:\n"
        "  # b.c\n"
        "  c:\n"
        "    # b.c.0\n"
        "    - x\n"
        "    # b.c.1\n"
        "    - d: 1.0\n"
        "      # b.c.1.e\n"
        "      e:\n"
        "        # b.c.1.e.f\n"
        "        f: null\n"
        "    # b.c.2\n"
        "    - []\n"
        "  # b.g\n"
        "  g: {}\n");
}

TEST_CASE("annotated text reads back equal, whatever the comments hold") {
  const Value value = read("{a: [[1, [2]], [[{k: 'no'}]]], '~': '# x', e: 1e-5, s: \"line\\nbreak: [\"}");
  const auto comment = [](const YamlPath&) { return std::string("key: [ value\n- second line: {\n\n"); };
  CHECK(read(levin::cli::annotated_yaml(value, comment)) == value);
  const auto none = [](const YamlPath&) { return std::string(); };
  CHECK(read(levin::cli::annotated_yaml(value, none)) == value);
  CHECK(levin::cli::annotated_yaml(Value(Value::Map{}), none) == "{}\n");
  CHECK(levin::cli::annotated_yaml(Value("x"), none) == "x\n");
}
