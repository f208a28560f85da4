#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <sstream>

#include "acceptance/digits_run.h"
#include "acceptance/readme_commands.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using Row = std::vector<double>;

/// The rows of a file of the example: eight features, a 1 for the constant term, and the strength.
std::vector<Row> rows_of(const std::string& file) {
  const CsvTable table = CsvTable::read(LEVIN_SOURCE_DIR "/examples/table/data/" + file);
  std::vector<Row> rows(table.size());
  for (const std::string& column : table.columns()) {
    if (column == table.columns().back()) {
      for (Row& row : rows) row.push_back(1);
    }
    const std::vector<double> values = table.values(column);
    for (std::size_t index = 0; index < rows.size(); ++index) rows[index].push_back(values.at(index));
  }
  return rows;
}

/// The smallest of a column's values in FOLDER/metrics.csv.
double least_value(const std::filesystem::path& folder, const std::string& column) {
  const std::vector<double> values = CsvTable::read(folder / "metrics.csv").values(column);
  REQUIRE_FALSE(values.empty());
  return *std::min_element(values.begin(), values.end());
}

/// Weights of the linear formula with the least squared error: the normal equations, solved by elimination.
Row least_squares(const std::vector<Row>& rows) {
  const std::size_t size = rows.front().size() - 1;
  std::vector<Row> equations(size, Row(size + 1));
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j <= size; ++j) equations[i][j] += row[i] * row[j];
    }
  }
  for (std::size_t pivot = 0; pivot < size; ++pivot) {
    for (std::size_t i = 0; i < size; ++i) {
      if (i == pivot) continue;
      const double factor = equations[i][pivot] / equations[pivot][pivot];
      for (std::size_t j = pivot; j <= size; ++j) equations[i][j] -= factor * equations[pivot][j];
    }
  }
  Row weights(size);
  for (std::size_t i = 0; i < size; ++i) weights[i] = equations[i][size] / equations[i][i];
  return weights;
}

double mean_squared_error(const std::vector<Row>& rows, const std::vector<double>& predictions) {
  double squares = 0;
  for (std::size_t index = 0; index < rows.size(); ++index) squares += std::pow(predictions.at(index) - rows[index].back(), 2);
  return squares / static_cast<double>(rows.size());
}

/// The part of the variance that a mean squared error leaves explained, R².
double explained(const std::vector<Row>& rows, double error) {
  double mean = 0;
  for (const Row& row : rows) mean += row.back() / static_cast<double>(rows.size());
  return 1 - error / mean_squared_error(rows, std::vector<double>(rows.size(), mean));
}

}  // namespace

TEST_CASE("the network predicts the table better than least squares, on two ranks too, and the sweep ends with its results") {
  const TemporaryFolder folder;
  const std::vector<std::string> printed =
      run_from_root(shell_blocks(LEVIN_SOURCE_DIR "/examples/table/README.md"), folder.path());
  REQUIRE(printed.size() == 2);
  const std::vector<Row> rows = rows_of("test.csv");
  REQUIRE(rows.size() == 201);

  const Row weights = least_squares(rows_of("train.csv"));
  std::vector<double> linear;
  for (const Row& row : rows) linear.push_back(std::inner_product(weights.begin(), weights.end(), row.begin(), 0.0));
  CHECK(explained(rows, mean_squared_error(rows, linear)) == Approx(0.58).margin(0.005));

  const CsvTable predictions = CsvTable::read(version_folder(folder.path(), 2) / "predictions.csv");
  REQUIRE(predictions.size() == rows.size());
  const double error = mean_squared_error(rows, predictions.values("strength"));
  CHECK(explained(rows, error) > 0.8);
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
