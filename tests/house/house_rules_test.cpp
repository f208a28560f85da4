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
  CHECK(findings({"strategies/ddp.cpp", "#  include <levin/cli/run_main.h>\n"}).size() == 1);
  CHECK(findings({"cli/run.cpp", "#include \"levin/callbacks/timer.h\"\n"}).empty());
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
  CHECK(findings({"core/config/to_yaml.cpp", "#include <yaml-cpp/yaml.h>\n"}).empty());
  CHECK(findings({"core/trainer.cpp", "#include <CLI/CLI.hpp>\n"}).size() == 1);
  CHECK(findings({"callbacks/timer.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>\n"}).size() == 1);
  CHECK(findings({"strategies/ddp.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>\n"}).empty());
}

TEST_CASE("communication outside of the strategies and the protocol is found") {
  for (const char* line :
       {"  group->allreduce(tensors);", "  group->all_reduce(tensors);", "  group.all_gather(mine, all, what);",
        "  const auto texts = all_gather_text(group, mine, what);", "  trainer.strategy().broadcast(tensor);",
        "  strategy->barrier();", "  group.gather(mine, longest, what);", "  exchange(mine, all);", "  board.exchange (mine);",
        "  all_gather<float>(mine);", "  const auto all = levin::all_gather(group, mine);  // std::exchange(",
        "  group._allgather_base(all, mine);", "  if (x) { group.alltoall(y); }",
        "  std::exchange(a, b), group.exchange(c);"}) {
    INFO(line);
    CHECK(findings({"callbacks/timer.cpp", line}).size() == 1);
    CHECK(findings({"core/train/fit_loop.cpp", line}).size() == 1);
    CHECK(findings({"strategies/ddp.cpp", line}).empty());
    CHECK(findings({"core/protocol/control_group.cpp", line}).empty());
    CHECK(findings({"tests/strategies/gradients/ddp_test.cpp", line}).empty());
  }
}

TEST_CASE("what only sounds like communication is not taken for it") {
  for (const char* line :
       {"  const auto outer = std::exchange(running, this);", "  const int before = std::atomic_exchange(&signal, 2);",
        "  // group.all_gather(mine, all, what)", "  /// Module::all_gather(tensor), which",
        "  RankExchange(group).broadcast_text(text, {\"a\", \"b\"});", "  ranks.gather_text(text, site);",
        "  ranks.gather_values(header, site);", "  gather_samples(runtime, batches, index, where);",
        "  std::string barrier_text(int rank);"}) {
    INFO(line);
    CHECK(findings({"callbacks/timer.cpp", line}).empty());
  }
  // The collectives that users call.
  CHECK(findings({"core/module.cpp", "  return trainer().strategy().all_gather(tensor, where);\n"}).empty());
  CHECK(findings({"core/trainer.cpp", "  return trainer().strategy().all_gather(tensor, where);\n"}).size() == 1);
}

TEST_CASE("a meeting at a boundary says above it why every rank comes there") {
  const auto found = [](const std::string& text) { return findings({"core/train/fit_loop.cpp", text}).size(); };
  CHECK(found("  runtime.meet(BoundaryKind::kEnd);\n") == 1);
  CHECK(found("  // Ranks meet.\n  runtime->meet(BoundaryKind::kEnd);\n") == 1);
  CHECK(found("  // Every rank reaches this because it ends.\n  runtime.meet(BoundaryKind::kEnd);\n") == 0);
  CHECK(found("  // Every rank reaches this because\n  // it ends.\n  const auto end =\n      runtime.meet(Kind::kEnd);\n") ==
        0);
  CHECK(found("  // Every rank reaches this because it ends.\n  if (x) go();\n  runtime.meet(BoundaryKind::kEnd);\n") == 1);
  CHECK(found("  // runtime.meet(BoundaryKind::kEnd)\n  int meet();\n  const ExchangeSite site(\"a\", \"b\");\n") == 0);
}

TEST_CASE("a namespace opened for all sources that are compiled together is found") {
  CHECK(findings({"core/trainer.cpp", "using namespace std::chrono;\n"}).size() == 1);
  CHECK(findings({"core/trainer.cpp", "  using namespace std::chrono;\n"}).empty());
  CHECK(findings({"tests/core/trainer_test.cpp", "using namespace levin;\n"}).empty());
}

TEST_CASE("a header without a guard and a file without end are found") {
  CHECK(findings({"core/trainer.h", "#include <string>\n"}).size() == 1);
  std::string long_text;
  for (int line = 0; line < 801; ++line) long_text += "// text\n";
  CHECK(findings({"core/trainer.cpp", long_text}).size() == 1);
}

TEST_CASE("what core/base does for all is not done by hand elsewhere") {
  CHECK(findings({"data/sampler.cpp", "\n  fail(\"weight \" + std::to_string(weight));\n"}) ==
        Strings{"data/sampler.cpp:2: puts a number into a text with +: use format() of core/base/format.h"});
  const auto [content, found] = GENERATE(table<std::string, std::size_t>({
      {"text = std::to_string(sizes.size()) +\n  \" samples\";", 1},
      {"text = \"of \" +\n  std::to_string(size);", 1},
      {"text = std::to_string(size);  // \" + std::to_string(size)", 0},
      {"#include <fmt/format.h>\n", 1},
      {"  std::snprintf(text.data(), text.size(), \"%f\", x);\n", 1},
      {"  line += (line.empty() ? \"\" : \", \") + word;\n", 1},
      {"  line += (line.empty() ? \"'\" : \", '\") + word + \"'\";\n", 1},
      {"  return line.empty() ? \"\" : line + \", \";\n", 0},
      {"  if ((byte & 0xc0) == 0x80) ++count;\n", 1},
      {"  header->cmsg_type = SCM_RIGHTS;\n", 1},
  }));
  INFO(content);
  CHECK(findings({"loggers/csv_text.cpp", content}).size() == found);
  CHECK(findings({"tests/loggers/csv_text_test.cpp", content}).empty());
  if (content.find("0xc0") != std::string::npos) CHECK(findings({"core/base/utf8.cpp", content}).empty());
}

}  // namespace
}  // namespace levin::test
