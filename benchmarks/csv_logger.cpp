// What a row costs CSVLogger on the thread that trains, in microseconds, up to row 100,000: with two metrics, or with a new one
// besides them every 10 rows. One sample a run.
//
//     csv_logger_benchmark fixed|new_metrics
#include "levin/loggers/csv_logger.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "levin/core/logger.h"
#include "sample.h"

namespace {

constexpr std::int64_t kRows = 100'000;
constexpr std::int64_t kRowsPerNewMetric = 10;

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc > 1 ? argv[1] : "";
  if (side != "fixed" && side != "new_metrics") {
    std::fprintf(stderr, "usage: csv_logger_benchmark fixed|new_metrics\n");
    return 2;
  }
  levin::RunInfo run;
  run.default_root_dir = std::filesystem::current_path();
  levin::CsvLogger logger;
  logger.open(run);
  levin::MetricRow row;
  const levin::benchmarks::Stopwatch stopwatch;
  for (std::int64_t step = 0; step < kRows; ++step) {
    row.step = step;
    row.values = {{"train_loss", 1.0 / static_cast<double>(step + 1)}, {"train_acc", 0.5}};
    if (side == "new_metrics") row.values["metric_" + std::to_string(step / kRowsPerNewMetric)] = 1.0;
    logger.log_metrics(row);
  }
  levin::benchmarks::print_sample(stopwatch.seconds() / kRows * 1e6);
}
