#include "levin/cli/config_file.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/cli/yaml_reader.h"
#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using levin::Value;
using levin::cli::read_yaml_file;
using levin::cli::save_config;

TEST_CASE("a configuration is saved into a folder that is made, and reads back equal") {
  const levin::test::TemporaryFolder folder;
  const Value config = levin::cli::read_yaml(levin::cli::SourceText("x", "{a: {b: 1.0, c: [x, null]}}"));
  const auto file = save_config(config, folder / "logs/version_0");
  CHECK(file == folder / "logs/version_0/config.yaml");
  CHECK(read_yaml_file(file) == config);
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "logs/version_0"), {}) == 1);
}

TEST_CASE("config.yaml is that of the latest run, and none that differs is overwritten") {
  const levin::test::TemporaryFolder folder;
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
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  for (const char* name : {"config.yaml.partial", "config_1.yaml"}) {
    std::filesystem::create_symlink(folder / "victim", folder / name);
  }
  std::filesystem::create_symlink(folder / "nowhere", folder / "config.yaml");
  const auto file = save_config(Value(Value::Map{{"n", 1}}), folder.path());
  CHECK(file == folder / "config.yaml");
  CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));
  std::string kept;
  std::getline(std::ifstream(folder / "victim"), kept);
  CHECK(kept == "precious");
}

TEST_CASE("a folder that cannot be written to is an error that says so") {
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "file") << "in the way";
  CHECK_THROWS_AS(save_config(Value(1), folder / "file"), levin::IoError);
  CHECK_THROWS_AS(save_config(Value(1), folder / "file" / "below"), levin::IoError);
}
