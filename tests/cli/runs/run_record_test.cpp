#include "levin/cli/runs/run_record.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "levin/core/files/atomic_file.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::write_file;
using levin::cli::find_run_records;
using levin::cli::RunRecord;
using levin::test::TemporaryFolder;

namespace {

constexpr const char* kRows = "epoch,step,loss,rank_0_loss\n0,0,0.5,9\n1,1,0.25,9\n1,2,0.375,9\n";

/// A run.json that says of the metrics what the file does not, if they are of a file so long.
std::string run_json(const std::string& status, std::size_t bytes) {
  return R"({"status": ")" + status +
         R"(", "started": "2026-11-26 14:02:47", "seconds": 1.5, "epochs": 7, "metrics_csv_bytes": )" + std::to_string(bytes) +
         R"(, "metrics": {"loss": {"last": "nan", "min": 1.0, "max": 3.0}, "none": {"last": 1.0, "min": "-inf"}, "odd": 1}})";
}

RunRecord read(const TemporaryFolder& folder) { return find_run_records({folder.path()}).at(0); }

}  // namespace

TEST_CASE("what metrics came to is in run.json, and is not read from their file again") {
  const TemporaryFolder folder;
  write_file(folder / "version_0/metrics.csv", kRows);
  write_file(folder / "version_0/run.json", run_json("finished", std::string(kRows).size()));
  write_file(folder / "version_0/config.yaml", "# levin 0.1.0\nmodel:\n  class_path: Digits\n  init_args: {lr: 0.5}\n");
  write_file(folder / "version_0/tags.json", R"(["good"])");
  const RunRecord run = read(folder);
  CHECK(run.name == "version_0");
  CHECK(run.status == "finished");
  CHECK(run.started == "2026-11-26 14:02:47");
  CHECK(run.seconds == 1.5);
  CHECK(run.tags == std::vector<std::string>{"good"});
  CHECK(run.config.at("model").at("init_args").at("lr").as_double() == 0.5);
  CHECK(run.summary.epochs == 7);
  REQUIRE(run.summary.metrics.size() == 1);
  CHECK(std::isnan(run.summary.metrics.at("loss").last));
  CHECK(run.summary.metrics.at("loss").min == 1);
  CHECK(run.summary.metrics.at("loss").max == 3);
}

TEST_CASE("where run.json does not speak of the file that is there, the file counts") {
  const TemporaryFolder folder;
  const std::size_t size = std::string(kRows).size();
  const std::string record = GENERATE_COPY(run_json("finished", size + 1), std::string(R"({"status": "failed"})"),
                                           std::string("{"), std::string("[]"));
  write_file(folder / "version_0/metrics.csv", kRows);
  write_file(folder / "version_0/run.json", record);
  const RunRecord run = read(folder);
  CHECK(run.summary.epochs == 2);
  REQUIRE(run.summary.metrics.size() == 1);
  CHECK(run.summary.metrics.at("loss").last == 0.375);
  CHECK(run.summary.metrics.at("loss").min == 0.25);
  CHECK(run.summary.metrics.at("loss").max == 0.5);
}

TEST_CASE("listing runs leaves nothing behind, and touches no file that is there") {
  const TemporaryFolder folder;
  write_file(folder / "version_0/metrics.csv", kRows);
  std::ofstream(folder / "runs.sqlite") << "somebody's database";
  read(folder);
  CHECK(levin::test::read_text(folder / "runs.sqlite") == "somebody's database");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}
