#include "levin/cli/report/run_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/files/csv_reader.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// The number of "metrics_rank_3.csv"; -1 for another name.
int rank_of_file(std::string_view name) {
  constexpr std::string_view kBegin = "metrics_rank_";
  constexpr std::string_view kEnd = ".csv";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return -1;
  const std::string_view digits = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  int rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return error == std::errc() && end == digits.data() + digits.size() ? rank : -1;
}

/// Of "rank_12_loss".
int rank_in(std::string_view name) {
  constexpr std::string_view kBegin = "rank_";
  int rank = -1;
  std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), rank);
  return rank;
}

/// Where the numbers of a column go; nowhere where it is not a metric.
struct Column {
  MetricCurve* curve = nullptr;
  RankMean* rank = nullptr;
};

/// Puts the cells of rows into the curves that their columns belong to.
class RowReader {
 public:
  /// `rank`: of a file of one rank; -1: of all.
  RowReader(RunMetrics& metrics, int rank) : metrics_(metrics), rank_(rank) {}

  void set_columns(const std::vector<std::string>& names) {
    columns_.clear();
    step_column_ = names.size();
    for (std::size_t column = 0; column < names.size(); ++column) {
      if (names[column] == "step") step_column_ = column;
      columns_.push_back(column_of(names[column]));
    }
    numbers_.reserve(names.size());
  }

  /// A line of a CSV file, without its end.
  void read(std::string_view line) {
    numbers_.clear();
    double step = static_cast<double>(rows_++);
    std::size_t column = 0;
    for (const char *at = line.data(), *const end = at + line.size(); at < end && column < columns_.size(); ++at, ++column) {
      if (*at == ',') continue;
      double number = 0;
      const char* const after = parse_number(at, end, number);
      if (after != nullptr) {
        if (column == step_column_) {
          step = number;
        } else if (columns_[column].curve != nullptr) {
          numbers_.emplace_back(columns_[column], number);
        }
        at = after;
      } else {
        at = end_of_cell(at, end);
      }
    }
    constexpr double kFarthest = 1e15;
    if (!(step >= 0 && step <= kFarthest)) return;
    for (const auto& [column, number] : numbers_) {
      column.curve->add(static_cast<std::int64_t>(step), number);
      if (column.rank == nullptr || !std::isfinite(number)) continue;
      column.rank->sum += number;
      ++column.rank->count;
    }
  }

 private:
  Column column_of(const std::string& name) {
    if (name == "epoch" && rank_ < 0) return {&metrics_.epochs};
    if (name.empty() || name == "step" || name == "epoch" || name == "evaluation_batch") return {};
    if (const auto shared_name = metric_of_rank(name)) return of_rank(std::string(*shared_name), rank_in(name));
    return rank_ < 0 ? Column{&metrics_.by_name[name].curve} : of_rank(name, rank_);
  }

  Column of_rank(const std::string& name, int rank) {
    RunMetric& metric = metrics_.by_name[name];
    return {&metric.ranks, &metric.by_rank[rank]};
  }

  RunMetrics& metrics_;
  int rank_;
  std::vector<Column> columns_;
  std::size_t step_column_ = 0;
  std::vector<std::pair<Column, double>> numbers_;  ///< of the row in work
  std::int64_t rows_ = 0;
};

void read_file(const fs::path& file, int rank, RunMetrics& metrics) try {
  CsvReader lines(file);
  RowReader rows(metrics, rank);
  std::vector<std::string> names;
  lines.next(names);
  rows.set_columns(names);
  while (const auto line = lines.next_line()) rows.read(*line);
} catch (const IoError& error) {
  metrics.problems.emplace_back(error.what());
}

}  // namespace

RunMetrics read_run_metrics(const fs::path& run) {
  RunMetrics metrics;
  std::error_code error;
  if (fs::exists(run / "metrics.csv", error)) read_file(run / "metrics.csv", /*rank=*/-1, metrics);
  std::vector<fs::path> rank_files;
  for (fs::directory_iterator entry(run, error), end; !error && entry != end; entry.increment(error)) {
    if (rank_of_file(entry->path().filename().native()) >= 0) rank_files.push_back(entry->path());
  }
  std::sort(rank_files.begin(), rank_files.end());
  for (const fs::path& file : rank_files) read_file(file, rank_of_file(file.filename().native()), metrics);
  // Names that have no value are not curves.
  std::erase_if(metrics.by_name, [](const auto& entry) { return entry.second.curve.size() + entry.second.ranks.size() == 0; });
  return metrics;
}

}  // namespace levin::cli
