#include "levin/cli/config/config_text.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/cli/config/source_text.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/config/to_yaml.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace {

Value read(const std::string& text) { return read_yaml(SourceText("run.yaml", text)); }

std::string path_as_comment(const YamlPath& path) {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : ".") + part;
  return text;
}

}  // namespace

TEST_CASE("a configuration is saved into a folder that is made, and reads back equal") {
  const TemporaryFolder folder;
  const Value config = read("{a: {b: 1.0, c: [x, null]}}");
  const auto file = save_config(config, folder / "logs/version_0");
  CHECK(file == folder / "logs/version_0/config.yaml");
  CHECK(read_yaml_file(file) == config);
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "logs/version_0"), {}) == 1);
}

TEST_CASE("config.yaml is that of the latest run, and none that differs is overwritten") {
  const TemporaryFolder folder;
  const auto with = [](int number) { return Value(Value::Map{{"n", number}}); };
  CHECK(save_config(with(1), folder.path()) == folder / "config.yaml");
  CHECK(save_config(with(1), folder.path()) == folder / "config.yaml");
  CHECK(save_config(with(2), folder.path()) == folder / "config.yaml");
  CHECK(save_config(with(3), folder.path()) == folder / "config.yaml");
  CHECK(save_config(with(2), folder.path()) == folder / "config.yaml");
  CHECK(read_yaml_file(folder / "config.yaml") == with(2));
  CHECK(read_yaml_file(folder / "config_1.yaml") == with(1));
  CHECK(read_yaml_file(folder / "config_2.yaml") == with(2));
  CHECK(read_yaml_file(folder / "config_3.yaml") == with(3));
}

TEST_CASE("nothing is written through links that lie in the folder") {
  const TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  for (const char* name : {"config.yaml.partial", "config_1.yaml"}) {
    std::filesystem::create_symlink(folder / "victim", folder / name);
  }
  std::filesystem::create_symlink(folder / "nowhere", folder / "config.yaml");
  const auto file = save_config(Value(Value::Map{{"n", 1}}), folder.path());
  CHECK(file == folder / "config.yaml");
  CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));
  CHECK(read_text(folder / "victim") == "precious");
}

TEST_CASE("a folder that cannot be written to is an error that says so") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "in the way";
  CHECK_THROWS_AS(save_config(Value(1), folder / "file"), IoError);
  CHECK_THROWS_AS(save_config(Value(1), folder / "file" / "below"), IoError);
}

TEST_CASE("comments stand above their keys, with the same indent") {
  const Value value = read("a: 1\nb:\n  c: [x, {d: 1.0, e: {f: null}}, []]\n  g: {}\n");
  CHECK(to_yaml(value, path_as_comment) ==
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
  CHECK(read(to_yaml(value, comment)) == value);
  const auto none = [](const YamlPath&) { return std::string(); };
  CHECK(read(to_yaml(value, none)) == value);
  CHECK(to_yaml(Value(Value::Map{}), none) == "{}\n");
  CHECK(to_yaml(Value("x"), none) == "x\n");
}
