#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;

/// Two ranks, on one of which `fault` happens in the fourth training step.
Outcome fit_with_fault(const TemporaryFolder& folder, const std::string& fault,
                       const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  std::ofstream(folder / "faulty.yaml") << "plugins: [" LEVIN_BINARY_DIR
                                           "/tests/plugins/libfaulty.so]\n"
                                           "model: {class_path: Faulty, init_args: {fault: "
                                        << fault
                                        << "}}\n"
                                           "data: OnesData\n"
                                           "trainer: {max_epochs: 2, devices: 2, accelerator: cpu}\n";
  return run({.arguments = {levin_program(), "fit", "--config", (folder / "faulty.yaml").string(),
                            "--trainer.default_root_dir=" + folder.path().string()},
              .environment = environment});
}

TEST_CASE("an exception on one rank ends all of them, with its text, rank and hook") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with_fault(folder, "throw");
  INFO(outcome.text());
  CHECK_FALSE(outcome.timed_out);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.err, Contains("the sample is damaged") && Contains("rank 1") && Contains("training_step"));
}

TEST_CASE("a rank that crashes ends all of them") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with_fault(folder, "crash");
  INFO(outcome.text());
  CHECK_FALSE(outcome.timed_out);
  CHECK(outcome.status != 0);
  CHECK_THAT(outcome.err, Contains("rank 1"));
}

TEST_CASE("a rank that exits ends all of them") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with_fault(folder, "exit");
  INFO(outcome.text());
  CHECK_FALSE(outcome.timed_out);
  CHECK(outcome.status != 0);
  CHECK_THAT(outcome.err, Contains("rank 1"));
}

TEST_CASE("SIGTERM on one rank stops all of them in good order") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with_fault(folder, "terminate");
  INFO(outcome.text());
  CHECK_FALSE(outcome.timed_out);
  CHECK(outcome.status == 128 + 15);
}

TEST_CASE("a metric that one rank logs hangs nobody, and is written") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with_fault(folder, "log");
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.err, Contains("lonely") && Contains("faulty.cpp:"));
  CHECK(CsvTable::read(version_folder(folder.path()) / "metrics.csv").values("lonely_epoch").at(0) == 4.0);
}

TEST_CASE("what a plug-in leaves for the end of the process is done, in each rank") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with_fault(folder, "none", {{"LEVIN_TEST_FAREWELL", "1"}});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  for (const char* rank : {"0", "1"}) CHECK_THAT(outcome.out, Contains(std::string("farewell of rank ") + rank + "\n"));
}

}  // namespace
}  // namespace levin::test
