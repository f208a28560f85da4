#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "acceptance/digits_run.h"
#include "acceptance/readme_commands.h"
#include "levin/data/csv_file.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// The rows of a file of the example: eight features, a 1 for the constant term, and the strength.
std::pair<at::Tensor, at::Tensor> features_and_strength(const std::string& file) {
  const at::Tensor rows = read_csv(LEVIN_SOURCE_DIR "/examples/table/data/" + file).values.to(at::kDouble);
  const at::Tensor strength = rows.slice(1, -1);
  return {at::cat({rows.slice(1, 0, -1), at::ones_like(strength)}, 1), strength};
}

/// The smallest of a column's values in FOLDER/metrics.csv.
double least_value(const std::filesystem::path& folder, const std::string& column) {
  const std::vector<double> values = CsvTable::read(folder / "metrics.csv").values(column);
  REQUIRE_FALSE(values.empty());
  return *std::min_element(values.begin(), values.end());
}

double mean_squared_error(const at::Tensor& strength, const at::Tensor& predictions) {
  return (strength - predictions).square().mean().item<double>();
}

/// The part of the variance that a mean squared error leaves explained, R².
double explained(const at::Tensor& strength, double error) { return 1 - error / strength.var(false).item<double>(); }

}  // namespace

TEST_CASE("the network predicts the table better than least squares, on two ranks too, and the sweep ends with its results") {
  const TemporaryFolder folder;
  const std::vector<std::string> printed =
      run_from_root(shell_blocks(LEVIN_SOURCE_DIR "/examples/table/README.md"), folder.path());
  REQUIRE(printed.size() == 2);
  const auto [features, strength] = features_and_strength("test.csv");
  REQUIRE(strength.size(0) == 201);

  const auto [known_features, known_strength] = features_and_strength("train.csv");
  const at::Tensor weights = std::get<0>(at::linalg_lstsq(known_features, known_strength));
  CHECK(explained(strength, mean_squared_error(strength, features.mm(weights))) == Approx(0.58).margin(0.005));

  const std::vector<double> predictions =
      CsvTable::read(version_folder(folder.path(), 2) / "predictions.csv").values("strength");
  REQUIRE(std::ssize(predictions) == strength.size(0));
  const double error = mean_squared_error(strength, at::tensor(predictions, at::kDouble).unsqueeze(1));
  CHECK(explained(strength, error) > 0.8);
  CHECK(least_value(version_folder(folder.path(), 1), "test_mse") == Approx(error).epsilon(1e-4));

  // It stopped once val_loss had not improved for 20 epochs.
  const std::vector<double> val_loss = CsvTable::read(version_folder(folder.path()) / "metrics.csv").values("val_loss");
  CHECK(val_loss.size() < 300);
  CHECK(std::min_element(val_loss.begin(), val_loss.end()) == val_loss.end() - 21);

  const double one_rank = least_value(version_folder(folder.path()), "val_loss");
  CHECK(least_value(version_folder(folder.path(), 3), "val_loss") == Approx(one_rank).epsilon(0.25));

  std::vector<double> losses;
  std::istringstream lines(printed[1]);
  for (std::string line; std::getline(lines, line);) {
    double loss = 0;
    std::string file;
    if (!(std::istringstream(line) >> loss >> file) || !file.starts_with("sweep/")) continue;
    losses.push_back(loss);
    CHECK(loss == Approx(least_value((folder / file).parent_path(), "val_loss")).epsilon(1e-6));
  }
  REQUIRE(losses.size() == 6);
  CHECK(std::is_sorted(losses.begin(), losses.end()));
  CHECK(losses.back() > 2 * losses.front());
}

}  // namespace levin::test
