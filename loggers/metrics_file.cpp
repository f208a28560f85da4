#include "levin/loggers/metrics_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/text.h"
#include "levin/core/files/csv_reader.h"
#include "levin/core/files/csv_text.h"
#include "levin/core/logger.h"

namespace levin {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kManyRows = 4096;
constexpr std::size_t kBuffer = 1 << 18;
constexpr std::chrono::seconds kFlushPeriod{1};

template <class Row>
void append_line(std::string& text, const Row& row, std::size_t columns) {
  std::size_t column = 0;
  for (const auto& [place, number] : row) {
    text.append(place - column, ',');
    append_csv_text(text, number);
    column = place;
  }
  text.append(columns - 1 - column, ',');
  text += '\n';
}

template <class Row>
void sort_cells(Row& row) {
  std::sort(row.begin(), row.end(), [](const auto& left, const auto& right) { return left.first < right.first; });
  const auto same = [](const auto& left, const auto& right) { return left.first == right.first; };
  row.erase(std::unique(row.begin(), row.end(), same), row.end());  // of a header with a name twice
}

/// `index`: of the row, in the order in which rows were written. A step that is not a number (a metric called "step" may hold
/// anything) never counts as too late.
bool passes(const RowFilter& filter, std::string_view step, std::int64_t index) {
  if (filter.rows) return index < *filter.rows;
  const auto number = filter.end_step ? parse_float(step) : std::nullopt;
  return !number || !(*number >= static_cast<double>(*filter.end_step));
}

}  // namespace

void MetricsSummary::Metric::add(double value) {
  last = value;
  if (!std::isfinite(value)) return;
  min = std::fmin(min, value);  // which ignores NaN
  max = std::fmax(max, value);
}

MetricsFile::MetricsFile(fs::path path, std::int64_t flush_every_n_steps, double rewriting_share)
    : path_(std::move(path)),
      flush_every_n_steps_(flush_every_n_steps),
      rewriting_share_(rewriting_share),
      made_at_(Clock::now()),
      flushed_at_(made_at_) {}

void MetricsFile::append(const MetricRow& row) {
  Row& cells = waiting_.emplace_back();
  cells.reserve(row.values.size() + 3);
  const auto add = [&](std::string_view name, auto number) {
    Column& of_name = column(name);
    of_name.add(static_cast<double>(number));
    append_csv_number(cells.emplace_back(of_name.place, "").second, number);
  };
  const auto add_own = [&](const char* name, std::int64_t number) {
    if (!row.values.contains(name)) add(name, number);
  };
  add_own("epoch", row.epoch);
  add_own("step", row.step);
  if (row.evaluation_batch) add_own("evaluation_batch", *row.evaluation_batch);
  for (const auto& [name, value] : row.values) add(name, value);
  sort_cells(cells);
  ++rows_;

  if (!flushed_until_ || row.step < *flushed_until_) flushed_until_ = row.step;
  const bool due = row.step + 1 - *flushed_until_ >= flush_every_n_steps_ || rows_ - rows_at_write_ >= kManyRows ||
                   Clock::now() - flushed_at_ >= kFlushPeriod;
  if (!due) return;
  write(NewColumns::kWhileCheap);
  flushed_until_ = row.step + 1;
}

void MetricsFile::flush() { write(NewColumns::kNow); }

void MetricsFile::write(NewColumns new_columns) {
  if (file_ && !file_->is_in_place()) {
    // Rows that are appended to a removed file would be lost silently.
    if (!fs::exists(path_)) {
      throw IoError(path_.string() + " is gone: it, or the folder it was in, was removed while the run was writing to it");
    }
    // Another program, such as an editor, has replaced the file: continue that one.
    rewrite(path_, {}, AtomicFile::Disk::kWait);
  }
  if (waiting_.empty()) return;
  if (file_ && columns_in_file_ == columns_.size()) {
    append_to_file();
  } else if (new_columns == NewColumns::kNow || may_rewrite()) {
    // The kernel writes the rows so far to the disk, too.
    rewrite(path_, {}, AtomicFile::Disk::kLeaveToKernel);
  }
  rows_at_write_ = rows_;
  flushed_at_ = Clock::now();
}

void MetricsFile::tidy() {
  flush();
  if (!file_) return;
  std::sort(columns_.begin(), columns_.end());
  for (std::size_t place = 0; place < columns_.size(); ++place) column(columns_[place]).place = place;
  columns_in_file_ = 0;  // in this order
  rewrite(path_, {}, AtomicFile::Disk::kWait);
}

void MetricsFile::start_from(const fs::path& history, const RowFilter& filter) {
  for (auto& [name, column] : column_of_) column.values = {};
  rewrite(history, filter, AtomicFile::Disk::kWait, [this](const Row& row) {
    for (const auto& [place, text] : row) {
      if (const auto number = parse_float(text)) column(columns_[place]).add(*number);
    }
  });
  rows_ = rows_at_write_ = rows_in_file_;
}

MetricsSummary MetricsFile::summary() const {
  MetricsSummary summary;
  for (const auto& [name, column] : column_of_) {
    if (!column.values) continue;
    if (name == "epoch" && std::isfinite(column.values->max))
      summary.epochs = static_cast<std::int64_t>(column.values->max) + 1;
    const bool is_metric =
        !name.empty() && name != "step" && name != "epoch" && name != "evaluation_batch" && !metric_of_rank(name);
    if (is_metric) summary.metrics.emplace(name, *column.values);
  }
  std::error_code none;
  const std::uintmax_t bytes = fs::file_size(path_, none);
  if (!none) summary.bytes = static_cast<std::int64_t>(bytes);
  return summary;
}

void MetricsFile::Column::add(double value) {
  if (!values) values.emplace();
  values->add(value);
}

MetricsFile::Column& MetricsFile::column(std::string_view name) {
  const auto known = column_of_.find(name);
  if (known != column_of_.end()) return known->second;
  columns_.emplace_back(name);
  return column_of_.emplace(name, Column{.place = columns_.size() - 1}).first->second;
}

void MetricsFile::append_to_file() {
  std::string text;
  for (const Row& row : waiting_) append_line(text, row, columns_.size());
  file_->append(text);
  rows_in_file_ += static_cast<std::int64_t>(waiting_.size());
  waiting_.clear();
}

bool MetricsFile::may_rewrite() const {
  if (!file_) return true;
  constexpr std::chrono::duration<double> kAhead{0.5};  // so that short runs show new columns at once
  // It takes what it took the last time, times what the table has grown since.
  const auto rows = static_cast<double>(rows_in_file_ + static_cast<std::int64_t>(waiting_.size()));
  const double cells = static_cast<double>(rows_in_file_) * static_cast<double>(columns_in_file_);
  const double growth = rows * static_cast<double>(columns_.size()) / (cells + 1);
  return spent_rewriting_ + growth * last_rewriting_ <= rewriting_share_ * (Clock::now() - made_at_ + kAhead);
}

// In one instant.
void MetricsFile::rewrite(const fs::path& source, const RowFilter& filter, AtomicFile::Disk disk,
                          const std::function<void(const Row&)>& see) {
  const auto begin = Clock::now();
  std::optional<CsvReader> reader;
  std::vector<std::string> cells;
  if (fs::exists(source)) reader.emplace(source).next(cells);
  std::vector<std::size_t> places;
  for (const std::string& name : cells) places.push_back(column(name).place);
  if (columns_.empty()) return;
  const auto step = column_of_.find("step");

  AtomicFile file(path_, AtomicFile::MissingFolder::kRefuse);
  std::string text;
  std::int64_t index = 0, rows = 0;
  const auto write = [&] {
    file.write(text);
    text.clear();
  };
  const auto add = [&](const Row& row) {
    const auto cell = std::find_if(
        row.begin(), row.end(), [&](const auto& one) { return step != column_of_.end() && one.first == step->second.place; });
    if (!passes(filter, cell == row.end() ? "" : cell->second, index++)) return;
    append_line(text, row, columns_.size());
    if (see) see(row);
    ++rows;
    if (text.size() >= kBuffer) write();
  };
  Row header;
  for (const std::string& name : columns_) header.emplace_back(header.size(), name);
  append_line(text, header, columns_.size());
  Row row;
  while (reader && reader->next(cells)) {
    row.clear();
    for (std::size_t cell = 0; cell < std::min(cells.size(), places.size()); ++cell) {
      if (!cells[cell].empty()) row.emplace_back(places[cell], cells[cell]);
    }
    sort_cells(row);
    add(row);
  }
  std::for_each(waiting_.begin(), waiting_.end(), add);
  write();
  file.commit(disk);

  file_ = file.take();
  columns_in_file_ = columns_.size();
  rows_in_file_ = rows;
  waiting_.clear();
  last_rewriting_ = Clock::now() - begin;
  spent_rewriting_ += last_rewriting_;
}

}  // namespace levin
