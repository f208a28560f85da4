// What a row costs CSVLogger: microseconds a row at the beginning and far into a run, with fixed and with ever new metrics.
#include "levin/loggers/csv_logger.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "levin/core/logger.h"

namespace {

// Microseconds a row of the rows from `first` to `last`.
double measure(levin::CsvLogger& logger, std::int64_t first, std::int64_t last, std::int64_t rows_per_new_metric) {
  levin::MetricRow row;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = first; step < last; ++step) {
    row.step = step;
    row.values = {{"train_loss", 1.0 / static_cast<double>(step + 1)}, {"train_acc", 0.5}};
    if (rows_per_new_metric > 0) row.values["metric_" + std::to_string(step / rows_per_new_metric)] = 1.0;
    logger.log_metrics(row);
  }
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(last - first);
}

void finalize(levin::CsvLogger& logger, std::int64_t rows) {
  const auto start = std::chrono::steady_clock::now();
  logger.finalize("success");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("final rewrite of %lld rows: %.2f s\n", static_cast<long long>(rows), taken.count());
}

}  // namespace

int main() {
  const std::filesystem::path root = std::filesystem::temp_directory_path() / "levin_csv_logger_benchmark";
  std::filesystem::remove_all(root);
  levin::RunInfo run;
  run.default_root_dir = root;

  levin::CsvLogger fixed;
  fixed.open(run);
  std::int64_t done = 0;
  for (const std::int64_t rows : {1'000, 100'000, 1'000'000}) {
    std::printf("fixed metrics, up to row %8lld: %6.2f us/row\n", static_cast<long long>(rows), measure(fixed, done, rows, 0));
    done = rows;
  }
  finalize(fixed, done);

  levin::CsvLogger growing;
  growing.open(run);
  done = 0;
  for (const std::int64_t rows : {500, 1'000, 2'000, 4'000, 20'000, 100'000}) {
    std::printf("a new metric each 10 rows, up to row %6lld: %6.2f us/row\n", static_cast<long long>(rows),
                measure(growing, done, rows, 10));
    done = rows;
  }
  finalize(growing, done);
  std::filesystem::remove_all(root);
  return 0;
}
