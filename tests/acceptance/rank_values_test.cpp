#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

constexpr int kEveryNSteps = 2;

/// `levin fit` with the three ways of seeing each rank's values, which write to folders of their own.
Outcome fit(const fs::path& folder, int ranks, int epochs, const std::vector<std::string>& more = {}) {
  std::ofstream(folder / "run.yaml") << "plugins: [" LEVIN_BINARY_DIR
                                        "/tests/plugins/librank_values.so]\n"
                                        "model: RankValues\n"
                                        "data: Pairs\n"
                                        "trainer:\n"
                                        "  accelerator: cpu\n"
                                        "  log_every_n_steps: 1\n"
                                        "  uneven: keep\n"
                                        "  enable_model_summary: false\n"
                                        "  num_sanity_val_steps: 0\n"
                                        "  logger:\n"
                                        "    - {class_path: CSVLogger, init_args: {name: reduced}}\n"
                                        "    - class_path: CSVLogger\n"
                                        "      init_args: {name: own, per_rank: true, every_n_steps: 2}\n"
                                        "  callbacks: [{class_path: ModelCheckpoint, init_args: {save_last: true}}]\n";
  std::vector<std::string> arguments = {"fit",
                                        "--config",
                                        (folder / "run.yaml").string(),
                                        "--trainer.default_root_dir=" + folder.string(),
                                        "--trainer.devices=" + std::to_string(ranks),
                                        "--trainer.max_epochs=" + std::to_string(epochs)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return levin(arguments);
}

double value_of(int rank, int epoch, int batch) { return 100 * rank + 10 * epoch + batch; }
std::string of_rank(int rank, const std::string& name) { return "rank_" + std::to_string(rank) + "_" + name; }

void check_values(const CsvTable& table, const std::string& column, const std::vector<double>& expected) {
  INFO("column " << column);
  const std::vector<double> values = table.has(column) ? table.values(column) : std::vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t row = 0; row < values.size(); ++row) {
    INFO("row " << row);
    const bool same = std::isnan(expected[row]) ? std::isnan(values[row]) : values[row] == Approx(expected[row]);
    CHECK(same);
  }
}

/// The values of each step that a rank took, and the mean of each epoch.
struct OwnValues {
  OwnValues(int rank, int epochs, int batches) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (int batch = 0; batch < batches; ++batch) steps.push_back(value_of(rank, epoch, batch));
      if (batches > 0) means.push_back(value_of(rank, epoch, 0) + (batches - 1) / 2.0);
    }
  }
  std::vector<double> steps;
  std::vector<double> means;
};

std::vector<double> every_second(const std::vector<double>& values) {
  std::vector<double> found;
  for (std::size_t index = kEveryNSteps - 1; index < values.size(); index += kEveryNSteps) found.push_back(values[index]);
  return found;
}

void check_files(const fs::path& folder, int ranks, int epochs, int batches) {
  const CsvTable reduced = CsvTable::read(folder / "reduced/version_0/metrics.csv");
  std::vector<double> mean_steps;
  for (int rank = 0; rank < ranks; ++rank) {
    const OwnValues own(rank, epochs, batches);
    check_values(reduced, of_rank(rank, "loss"), own.steps);
    check_values(reduced, of_rank(rank, "loss_by_name"), own.steps);
    check_values(reduced, of_rank(rank, "val"), own.means);
    check_values(reduced, of_rank(rank, "val_by_name"), own.means);
    mean_steps.resize(own.steps.size());
    for (std::size_t step = 0; step < own.steps.size(); ++step) mean_steps[step] += own.steps[step] / ranks;

    const CsvTable file = CsvTable::read(folder / "own/version_0" / ("metrics_rank_" + std::to_string(rank) + ".csv"));
    check_values(file, "loss", every_second(own.steps));
    check_values(file, of_rank(rank, "loss_by_name"), every_second(own.steps));
    check_values(file, "val", own.means);
    CHECK_FALSE(file.has(of_rank((rank + 1) % ranks, "loss_by_name")));
    CHECK_FALSE(fs::exists(folder / "reduced/version_0" / ("metrics_rank_" + std::to_string(rank) + ".csv")));
  }
  check_values(reduced, "loss", mean_steps);
  CHECK(read_text(folder / "own/version_0/metrics.csv") == read_text(folder / "reduced/version_0/metrics.csv"));
  CHECK_FALSE(fs::exists(folder / "own/version_0" / ("metrics_rank_" + std::to_string(ranks) + ".csv")));
}

}  // namespace

TEST_CASE("each rank's values by name, as columns of one key, and in files of its own") {
  const int ranks = GENERATE(2, 4);
  const TemporaryFolder folder;
  const Outcome outcome = fit(folder.path(), ranks, 2, {"--data.init_args.samples=" + std::to_string(8 * ranks)});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  check_files(folder.path(), ranks, 2, 4);
  // Keys that each rank logs for itself are no reason to warn.
  CHECK(outcome.err.find("log(\"") == std::string::npos);
}

TEST_CASE("each rank's values go on where they were when a run is resumed") {
  const TemporaryFolder folder;
  REQUIRE(fit(folder.path(), 2, 1).ok());
  const std::string checkpoint = (folder / "reduced/version_0/checkpoints/last.ckpt").string();
  const Outcome outcome = fit(folder.path(), 2, 3, {"--ckpt_path=" + checkpoint});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  // The checkpoint lies in the first logger's folder, from whose rows that logger goes on.
  const CsvTable reduced = CsvTable::read(folder / "reduced/version_1/metrics.csv");
  for (const int rank : {0, 1}) {
    const OwnValues own(rank, 3, 6);
    check_values(reduced, of_rank(rank, "loss"), own.steps);
    check_values(reduced, of_rank(rank, "val"), own.means);
    const CsvTable file = CsvTable::read(folder / "own/version_1" / ("metrics_rank_" + std::to_string(rank) + ".csv"));
    check_values(file, "loss", every_second(own.steps));
    check_values(file, "val", own.means);
  }
}

TEST_CASE("a NaN on one rank shows as that rank's, and in what is reduced with it") {
  const TemporaryFolder folder;
  const Outcome outcome = fit(folder.path(), 2, 1, {"--model.init_args.nan_rank=1", "--data.init_args.samples=8"});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  const CsvTable reduced = CsvTable::read(folder / "reduced/version_0/metrics.csv");
  const double nan = std::nan("");
  check_values(reduced, "rank_0_loss", {0, 1});
  check_values(reduced, "rank_1_loss", {100, nan});
  check_values(reduced, "loss", {50, nan});
  check_values(reduced, "rank_0_val", {0.5});
  check_values(reduced, "rank_1_val", {nan});
  check_values(reduced, "val", {nan});
  check_values(CsvTable::read(folder / "own/version_0/metrics_rank_1.csv"), "loss", {nan});
}

TEST_CASE("a rank without a batch has no values, and changes none") {
  const TemporaryFolder folder;
  const Outcome outcome = fit(folder.path(), 4, 1, {"--data.init_args.samples=3"});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  const CsvTable reduced = CsvTable::read(folder / "reduced/version_0/metrics.csv");
  for (const int rank : {0, 1, 2}) {
    check_values(reduced, of_rank(rank, "loss"), {value_of(rank, 0, 0)});
    check_values(reduced, of_rank(rank, "val_by_name"), {value_of(rank, 0, 0)});
  }
  CHECK_FALSE(reduced.has("rank_3_loss"));
  CHECK_FALSE(reduced.has("rank_3_val"));
  check_values(reduced, "loss", {100});
  check_values(reduced, "val", {100});
  CHECK(outcome.err.find("log(\"") == std::string::npos);
}

}  // namespace levin::test
