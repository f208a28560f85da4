#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

Outcome fit_all_ranks(const TemporaryFolder& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"fit", "--config", LEVIN_SOURCE_DIR "/examples/all_ranks/config.yaml",
                                        "--trainer.default_root_dir=" + folder.path().string(), "--trainer.max_epochs=2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return levin(arguments);
}

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<double> column_of(const std::vector<nlohmann::json>& lines, const std::string& name, std::size_t rank) {
  std::vector<double> values;
  for (const auto& line : lines) {
    if (line["ranks"][rank].contains(name)) values.push_back(line["ranks"][rank][name]);
  }
  return values;
}

}  // namespace

TEST_CASE("the example's callback and logger see all ranks' values, as they stand in the other files") {
  const int ranks = GENERATE(2, 4);
  const TemporaryFolder folder;
  const Outcome outcome = fit_all_ranks(folder, {"--trainer.devices=" + std::to_string(ranks)});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  const auto lines = lines_of(folder / "rank_rows.jsonl");
  const CsvTable metrics = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
  const std::vector<double> reduced = metrics.values("train_loss");
  const std::vector<double> spreads = metrics.values("train_loss_spread");
  REQUIRE(reduced.size() >= 2);
  REQUIRE(spreads.size() == reduced.size());
  REQUIRE(lines.size() == reduced.size() + 2);  // and one for the validation of each epoch

  for (int rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank);
    const auto index = static_cast<std::size_t>(rank);
    const std::string prefix = "rank_" + std::to_string(rank) + "_";
    CHECK(column_of(lines, "train_loss", index) == metrics.values(prefix + "train_loss"));
    CHECK(column_of(lines, prefix + "val_loss", index) == metrics.values(prefix + "val_loss"));
    CHECK(column_of(lines, "val_loss", index) == metrics.values(prefix + "val_loss"));
    const CsvTable own = CsvTable::read(version_folder(folder.path()) / ("metrics_" + prefix.substr(0, 6) + ".csv"));
    CHECK(own.values("train_loss") == metrics.values(prefix + "train_loss"));
  }
  for (std::size_t row = 0; row < reduced.size(); ++row) {
    double sum = 0;
    double least = INFINITY;
    double most = -INFINITY;
    for (int rank = 0; rank < ranks; ++rank) {
      const double value = metrics.values("rank_" + std::to_string(rank) + "_train_loss").at(row);
      sum += value;
      least = std::min(least, value);
      most = std::max(most, value);
    }
    CHECK(most > least);
    CHECK(reduced[row] == Approx(sum / ranks));
    CHECK(spreads[row] == Approx(most - least));
  }
  CHECK(outcome.err.find("the other ranks' mean is") == std::string::npos);
}

TEST_CASE("the example's callback names the rank whose loss departs, once") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_all_ranks(folder, {"--model.init_args.broken_rank=1"});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  const auto warning = outcome.err.find("train_loss of rank 1 is ");
  REQUIRE(warning != std::string::npos);
  CHECK(outcome.err.find("train_loss of rank", warning + 1) == std::string::npos);
}

}  // namespace levin::test
