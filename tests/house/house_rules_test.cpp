#include "house/house_rules.h"

#include <catch2/catch.hpp>

namespace levin::test {
namespace {

using Strings = std::vector<std::string>;

TEST_CASE("every file keeps the house's rules") {
  const auto files = read_sources(LEVIN_SOURCE_DIR);
  REQUIRE(files.size() > 50);
  Strings all;
  for (const SourceFile& file : files) {
    const Strings found = findings(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  CHECK(all == Strings());
}

TEST_CASE("an include against the house's direction is found") {
  CHECK(findings({"core/trainer.cpp", "\n#include \"levin/callbacks/timer.h\"\n"}) ==
        Strings{"core/trainer.cpp:2: includes levin/callbacks/timer.h: core must not depend on callbacks"});
  CHECK(findings({"loggers/csv_logger.cpp", "#include \"levin/strategies/ddp.h\"\n"}) ==
        Strings{"loggers/csv_logger.cpp:1: includes levin/strategies/ddp.h: loggers must not depend on strategies"});
  CHECK(findings({"strategies/ddp.cpp", "#  include <levin/cli/cli.h>\n"}).size() == 1);
  CHECK(findings({"cli/builtins.cpp", "#include \"levin/callbacks/builtins.h\"\n"}).empty());
  CHECK(findings({"callbacks/timer.cpp", "#include \"levin/core/trainer.h\"\n#include \"levin/callbacks/timer.h\"\n"}).empty());
}

TEST_CASE("an include that avoids the include roots is found") {
  CHECK(findings({"core/trainer.cpp", "#include \"../callbacks/timer.h\"\n"}).size() == 1);
  CHECK(findings({"core/trainer.cpp", "#include \"callbacks/timer.h\"\n"}).size() == 1);
}

TEST_CASE("heavy and foreign headers stay in their places") {
  CHECK(findings({"core/trainer.cpp", "#include <torch/torch.h>\n"}).size() == 1);
  CHECK(findings({"tests/core/trainer_test.cpp", "#include <torch/torch.h>\n"}).empty());
  CHECK(findings({"callbacks/timer.cpp", "#include <levin/levin.h>\n"}).size() == 1);
  CHECK(findings({"examples/digits/module.cpp", "#include <levin/levin.h>\n"}).empty());
  CHECK(findings({"core/trainer.cpp", "#include <yaml-cpp/yaml.h>\n"}).size() == 1);
  CHECK(findings({"core/yaml/to_yaml.cpp", "#include <yaml-cpp/yaml.h>\n"}).empty());
  CHECK(findings({"core/trainer.cpp", "#include <CLI/CLI.hpp>\n"}).size() == 1);
  CHECK(findings({"callbacks/timer.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>\n"}).size() == 1);
  CHECK(findings({"strategies/ddp.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>\n"}).empty());
}

TEST_CASE("communication outside of the strategies and the protocol is found") {
  CHECK(findings({"callbacks/timer.cpp", "  group->allreduce(tensors);\n"}).size() == 1);
  CHECK(findings({"strategies/ddp.cpp", "  group->allreduce(tensors);\n"}).empty());
}

TEST_CASE("a namespace opened for all sources that are compiled together is found") {
  CHECK(findings({"core/trainer.cpp", "using namespace std::chrono;\n"}).size() == 1);
  CHECK(findings({"core/trainer.cpp", "  using namespace std::chrono;\n"}).empty());
  CHECK(findings({"tests/core/trainer_test.cpp", "using namespace levin;\n"}).empty());
}

TEST_CASE("a header without a guard and a file without end are found") {
  CHECK(findings({"core/trainer.h", "#include <string>\n"}).size() == 1);
  std::string long_text;
  for (int line = 0; line < 501; ++line) long_text += "// text\n";
  CHECK(findings({"core/trainer.cpp", long_text}).size() == 1);
}

}  // namespace
}  // namespace levin::test
