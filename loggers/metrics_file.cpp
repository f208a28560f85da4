#include "levin/loggers/metrics_file.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/logger.h"
#include "levin/loggers/csv_copy.h"
#include "levin/loggers/csv_text.h"
#include "levin/loggers/paged_text.h"

namespace levin {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kManyRows = 4096;
constexpr std::int64_t kSmallFile = 1 << 18;
constexpr std::size_t kMuchMemory = std::size_t(1) << 26;
constexpr std::chrono::seconds kFlushPeriod{1};

// A step that is no number (a metric called "step" may hold anything) never counts as too late.
bool is_before(std::string_view step, std::optional<std::int64_t> end_step) {
  if (!end_step) return true;
  double number = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  return error != std::errc() || end != step.data() + step.size() || !(number >= static_cast<double>(*end_step));
}

/// `index`: of the row, in the order in which rows were written.
bool keeps(const RowFilter& filter, std::string_view step, std::int64_t index) {
  return filter.rows ? index < *filter.rows : is_before(step, filter.end_step);
}

std::int64_t rows_of(const std::filesystem::path& file) {
  CsvReader reader(file);
  std::vector<std::string> cells;
  std::int64_t rows = -1;  // the header
  while (reader.next(cells)) ++rows;
  return rows;
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps, RewriteBudget budget)
    : path_(std::move(path)),
      flush_every_n_steps_(flush_every_n_steps),
      budget_(budget),
      journal_(path_),
      flushed_at_(Clock::now()),
      made_at_(flushed_at_) {}

MetricsFile::~MetricsFile() = default;

void MetricsFile::append(const MetricRow& row) {
  if (!open_) open();
  waiting_.add(column("epoch"), row.epoch);
  waiting_.add(column("step"), row.step);
  if (row.evaluation_batch) waiting_.add(column("evaluation_batch"), *row.evaluation_batch);
  for (const auto& [name, value] : row.values) waiting_.add(column(name), value);
  waiting_.end_row();
  ++rows_;

  if (!flushed_until_ || row.step < *flushed_until_) flushed_until_ = row.step;
  const bool due = row.step + 1 - *flushed_until_ >= flush_every_n_steps_ || waiting_.size() - in_journal_ >= kManyRows ||
                   Clock::now() - flushed_at_ >= kFlushPeriod;
  if (!due) return;
  flush();
  flushed_until_ = row.step + 1;
}

void MetricsFile::flush() {
  stay_in_place();
  if (waiting_.empty()) return;
  if (!append_to_file()) {
    if (may_rewrite()) {
      rewrite_for_columns();
    } else {
      append_to_journal();
    }
  }
  flushed_at_ = Clock::now();
}

void MetricsFile::tidy() {
  if (!open_) return;
  stay_in_place();
  if (!file_ && waiting_.empty()) return;
  std::vector<std::string> columns = columns_;
  std::sort(columns.begin(), columns.end());
  std::vector<std::size_t> place_of(columns.size());
  for (std::size_t place = 0; place < columns.size(); ++place) place_of[column(columns[place])] = place;
  rewrite(present_file(), columns, {}, waiting_.moved(place_of), AtomicFile::Disk::kWait);
  close();
}

void MetricsFile::start_from(const std::filesystem::path& history, const RowFilter& filter) {
  close();
  continue_from(history, filter);
  rows_ = static_cast<std::int64_t>(rows_in_file_);
}

// Rows that are appended to a file which nobody can open any more would be lost without a word.
void MetricsFile::stay_in_place() {
  if (!file_ || file_->is_in_place()) return;
  if (!std::filesystem::exists(path_)) {
    throw IoError(path_.string() + " is gone: it, or the folder it was in, was removed while the run was writing to it");
  }
  // Another program, such as an editor, has put a file in its place: go on from what that has.
  std::vector<std::string> columns;
  CsvReader(path_).next(columns);
  for (const std::string& name : columns) column(name);
  rewrite(path_, columns_, {}, waiting_, AtomicFile::Disk::kWait);
}

void MetricsFile::open() {
  // Its run may have been killed, or be one of a version that wrote files of another form.
  if (std::filesystem::exists(path_)) continue_from(path_, {});
  open_ = true;
}

void MetricsFile::close() {
  file_.reset();
  open_ = false;
  columns_.clear();
  column_of_.clear();
  waiting_.clear();
  columns_in_file_ = rows_in_file_ = in_journal_ = widest_row_ = 0;
}

void MetricsFile::continue_from(const std::filesystem::path& source, const RowFilter& filter) {
  std::vector<std::string> columns;
  if (!CsvReader(source).next(columns)) return;
  for (const std::string& name : columns) column(name);
  take_journal(source, filter, filter.rows ? rows_of(source) : 0);
  rewrite(source, columns_, filter, waiting_, AtomicFile::Disk::kWait);
  open_ = true;
}

void MetricsFile::take_journal(const std::filesystem::path& source, const RowFilter& filter, std::int64_t kept) {
  const auto journal = MetricsJournal::to_read(source);
  if (!journal) return;
  CsvReader reader(*journal);
  std::vector<std::string> cells;
  reader.next(cells);  // its first line
  while (reader.next(cells)) {
    cells.resize(cells.size() / 2 * 2);
    std::string_view step;
    for (std::size_t index = 0; index < cells.size(); index += 2) {
      if (cells[index] == "step") step = cells[index + 1];
    }
    if (!keeps(filter, step, kept++)) continue;
    for (std::size_t index = 0; index < cells.size(); index += 2) {
      waiting_.add(column(cells[index]), std::string_view(cells[index + 1]));
    }
    waiting_.end_row();
  }
}

std::size_t MetricsFile::column(std::string_view name) {
  // Found without a text of its own: this is asked for each number of each row.
  const auto known = column_of_.find(name);
  if (known != column_of_.end()) return known->second;
  const std::size_t index = columns_.size();
  column_of_.emplace(name, index);
  columns_.emplace_back(name);
  return index;
}

bool MetricsFile::append_to_file() {
  if (!file_ || columns_in_file_ != columns_.size() || in_journal_ > 0) return false;
  PagedText text(size_);
  std::size_t widest = widest_row_;
  std::string row_text;
  for (std::size_t row = 0; row < waiting_.size(); ++row) {
    row_text.clear();
    waiting_.append_row(row_text, row, columns_.size());
    if (!text.add(row_text)) return false;
    widest = std::max(widest, waiting_.widest(row, columns_.size()));
  }
  text.finish(widest);
  try {
    file_->write_at(size_, text.text());
  } catch (const IoError&) {
    // Half a row must not stay.
    file_->resize(size_);
    throw;
  }
  widest_row_ = widest;
  size_ += static_cast<std::int64_t>(text.text().size());
  rows_in_file_ += waiting_.size();
  waiting_.clear();
  return true;
}

void MetricsFile::append_to_journal() {
  std::string lines;
  for (std::size_t row = in_journal_; row < waiting_.size(); ++row) waiting_.append_pairs(lines, row, columns_);
  journal_.append(lines, size_);
  in_journal_ = waiting_.size();
}

bool MetricsFile::may_rewrite() const {
  if (!file_ || waiting_.bytes() >= kMuchMemory) return true;
  if (size_ <= kSmallFile && waiting_.size() >= rows_in_file_) return true;
  return spent_rewriting_ <= (Clock::now() - made_at_) * budget_.share + budget_.allowance;
}

void MetricsFile::rewrite_for_columns() {
  // The rows so far are the kernel's to bring to the disk, too.
  rewrite(present_file(), columns_, {}, waiting_, AtomicFile::Disk::kLeaveToKernel);
}

// Puts a file with the rows of `source` and `more` in place of the present one, in one instant.
void MetricsFile::rewrite(const std::optional<std::filesystem::path>& source, const std::vector<std::string>& columns,
                          const RowFilter& filter, const SparseRows& more, AtomicFile::Disk disk) {
  const auto begin = Clock::now();
  AtomicFile file(path_, AtomicFile::MissingFolder::kRefuse);
  CsvWriter writer(file);
  writer.add(csv_header(columns));
  std::size_t rows = 0;
  std::int64_t index = 0;
  const auto keep = [&](const std::string& step) { return keeps(filter, step, index++) && ++rows > 0; };
  if (source) copy_csv_rows(*source, writer, columns, "step", keep);
  std::size_t widest = widest_row_ + columns.size() - columns_in_file_;  // the rows so far have the new cells too
  std::string row_text;
  for (std::size_t row = 0; row < more.size(); ++row) {
    row_text.clear();
    more.append_row(row_text, row, columns.size());
    writer.add(row_text);
    widest = std::max(widest, more.widest(row, columns.size()));
  }
  writer.finish(widest);
  file.commit(disk);

  file_ = file.take();
  journal_.remove();
  size_ = writer.size();
  rows_in_file_ = rows + more.size();
  columns_in_file_ = columns.size();
  widest_row_ = widest;
  in_journal_ = 0;
  waiting_.clear();
  spent_rewriting_ += Clock::now() - begin;
}

}  // namespace levin
