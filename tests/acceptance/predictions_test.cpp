#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <sstream>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
using Catch::Matchers::Contains;

TEST_CASE("levin predict writes the same predictions in the same order on every number of ranks, and says where") {
  const TemporaryFolder folder;
  const std::vector<std::string> small = {"--model.init_args.channels=8", "--data.init_args.batch_size=7"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), small.begin(), small.end());
    return more;
  };
  REQUIRE(digits("fit", folder.path(), with({"--trainer.max_epochs=1"})).ok());
  std::vector<std::vector<double>> first_column;
  for (const int ranks : {1, 2, 4}) {
    const Outcome outcome =
        digits("predict", folder.path(), with({"--ckpt_path=best", "--trainer.devices=" + std::to_string(ranks)}));
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    const auto file = version_folder(folder.path(), static_cast<int>(first_column.size()) + 1) / "predictions.csv";
    CHECK_THAT(outcome.out, Contains("predictions: " + file.string() + " (359 samples)"));
    const CsvTable table = CsvTable::read(file);
    first_column.push_back(table.values(table.columns().front()));
  }
  REQUIRE(first_column[0].size() == 359);
  for (const std::size_t other : {1, 2}) {
    REQUIRE(first_column[other].size() == 359);
    for (std::size_t row = 0; row < 359; ++row) CHECK(first_column[other][row] == Approx(first_column[0][row]).margin(1e-4));
  }
}

TEST_CASE("all rows of a file are predicted, on several ranks too") {
  const TemporaryFolder folder;
  std::istringstream digits_file(read_text(LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv"));
  std::string line;
  {
    std::ofstream rows(folder / "rows.csv");
    for (int row = 0; row < 5 && std::getline(digits_file, line); ++row) rows << line.substr(0, line.rfind(',')) << "\n";
  }
  for (const char* devices : {"--trainer.devices=1", "--trainer.devices=2"}) {
    const Outcome outcome = digits("predict", folder.path(),
                                   {"--data.init_args.predict_path=" + (folder / "rows.csv").string(),
                                    "--data.init_args.batch_size=2", "--trainer.logger=false", devices});
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    CHECK_THAT(outcome.out, Contains("predictions.csv (5 samples)"));
    CHECK(CsvTable::read(folder / "predictions.csv").size() == 5);
  }
}

TEST_CASE("batches are written by the ranks that have them, with the indices of their samples") {
  const TemporaryFolder folder;
  const Outcome outcome = digits("predict", folder.path(),
                                 {"--trainer.logger=false", "--trainer.callbacks+=PredictionWriter",
                                  "--trainer.callbacks.write_interval=batch", "--trainer.devices=2"});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.out, Contains("predictions: " + (folder / "predictions/").string()));
  std::vector<double> samples;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "predictions")) {
    const std::vector<double> of_batch = CsvTable::read(entry.path()).values("sample");
    samples.insert(samples.end(), of_batch.begin(), of_batch.end());
  }
  std::sort(samples.begin(), samples.end());
  std::vector<double> all(359);
  std::iota(all.begin(), all.end(), 0);
  CHECK(samples == all);
  CHECK_FALSE(std::filesystem::exists(folder / "predictions.csv"));
}

TEST_CASE("without a logger predictions go to default_root_dir, and nowhere when that is asked for") {
  const TemporaryFolder folder;
  REQUIRE(digits("predict", folder.path(), {"--trainer.logger=false", "--trainer.enable_prediction_writer=false"}).ok());
  CHECK_FALSE(std::filesystem::exists(folder / "predictions.csv"));
  REQUIRE(digits("predict", folder.path(), {"--trainer.logger=false"}).ok());
  CHECK(std::filesystem::exists(folder / "predictions.csv"));
  const Outcome own =
      digits("predict", folder.path(),
             {"--trainer.logger=false", "--trainer.callbacks+=PredictionWriter", "--trainer.callbacks.format=npy"});
  INFO(own.text());
  REQUIRE(own.ok());
  CHECK(std::filesystem::exists(folder / "predictions.npy"));
}

}  // namespace levin::test
