#include "levin/loggers/metrics_file.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "levin/core/logger.h"
#include "levin/loggers/csv_copy.h"
#include "levin/loggers/csv_text.h"
#include "levin/loggers/output_file.h"

namespace levin {
namespace {

constexpr std::size_t kLargeBuffer = 1 << 18;
constexpr std::chrono::seconds kFlushPeriod{1};

// A step that is no number (a metric called "step" may hold anything) never counts as too late.
bool is_before(const std::string& step, std::optional<std::int64_t> end_step) {
  if (!end_step) return true;
  double number = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  return error != std::errc() || end != step.data() + step.size() || !(number >= static_cast<double>(*end_step));
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps)
    : path_(std::move(path)), flush_every_n_steps_(flush_every_n_steps), flushed_at_(std::chrono::steady_clock::now()) {}

MetricsFile::~MetricsFile() = default;

void MetricsFile::append(const MetricRow& row) {
  if (!open_) open();
  for (std::string& cell : cells_) cell.clear();
  const auto set = [this](std::string_view name, auto value) {
    std::string& cell = cells_[column(name)];
    cell.clear();
    append_csv_number(cell, value);
  };
  set("epoch", row.epoch);
  set("step", row.step);
  for (const auto& [name, value] : row.values) set(name, value);
  append_csv_row(pending_rows_, cells_);

  if (!flushed_until_ || row.step < *flushed_until_) flushed_until_ = row.step;
  const bool due = row.step + 1 - *flushed_until_ >= flush_every_n_steps_ || pending_rows_.size() >= kLargeBuffer ||
                   std::chrono::steady_clock::now() - flushed_at_ >= kFlushPeriod;
  if (!due) return;
  flush();
  flushed_until_ = row.step + 1;
}

void MetricsFile::flush() {
  if (pending_rows_.empty()) return;
  write_columns();
  write_rows();
  flushed_at_ = std::chrono::steady_clock::now();
}

void MetricsFile::tidy() {
  if (!open_) return;
  flush();
  std::vector<std::string> columns = columns_;
  std::sort(columns.begin(), columns.end());
  rewrite(path_, {.columns = std::move(columns), .rectangular = true, .room = false}, std::nullopt);
  close();
}

void MetricsFile::start_from(const std::filesystem::path& history, std::int64_t end_step) {
  close();
  continue_from(history, end_step);
}

void MetricsFile::open() {
  // Written by a run that ended: without room, or, if it was killed, perhaps with half a row at its end.
  if (std::filesystem::exists(path_)) continue_from(path_, std::nullopt);
  open_ = true;
}

void MetricsFile::close() {
  file_.reset();
  open_ = false;
  columns_.clear();
  column_of_.clear();
  cells_.clear();
  columns_in_file_ = 0;
  header_end_ = 0;
}

void MetricsFile::continue_from(const std::filesystem::path& source, std::optional<std::int64_t> end_step) {
  std::vector<std::string> columns;
  if (!CsvReader(source).next(columns)) return;
  rewrite(source, {.columns = columns, .rectangular = false, .room = true}, end_step);
  for (const std::string& name : columns) column(name);
  open_ = true;
}

std::size_t MetricsFile::column(std::string_view name) {
  const auto found = column_of_.find(name);
  if (found != column_of_.end()) return found->second;
  const std::size_t index = columns_.size();
  columns_.emplace_back(name);
  column_of_.emplace(name, index);
  cells_.emplace_back();
  return index;
}

void MetricsFile::write_columns() {
  if (columns_in_file_ == columns_.size()) return;
  const std::string text = csv_header_text(columns_, columns_in_file_);
  const std::int64_t text_end = header_end_ + static_cast<std::int64_t>(text.size());
  const CsvLayout layout{.columns = columns_, .rectangular = false, .room = true};
  if (columns_in_file_ == 0) {
    replace([&](OutputFile& file) { file.write_at(0, csv_header_line(layout)); }, layout);
  } else if (text_end <= room_end_) {
    file_->write_at(header_end_, text);
    header_end_ = text_end;
    columns_in_file_ = columns_.size();
  } else {
    rewrite(path_, layout, std::nullopt);
  }
}

void MetricsFile::write_rows() try {
  file_->write_at(size_, pending_rows_);
  size_ += static_cast<std::int64_t>(pending_rows_.size());
  pending_rows_.clear();
} catch (const IoError&) {
  // Half a row must not stay; when even this fails, readers still pass over a last row without a line end.
  try {
    file_->resize(size_);
  } catch (const IoError&) {
  }
  throw;
}

void MetricsFile::rewrite(const std::filesystem::path& source, const CsvLayout& layout, std::optional<std::int64_t> end_step) {
  const auto keep = [end_step](const std::string& step) { return is_before(step, end_step); };
  replace([&](OutputFile& file) { copy_csv(source, file, layout, "step", keep); }, layout);
}

// Puts a file that `write` makes in place of the present one, in one instant.
void MetricsFile::replace(const std::function<void(OutputFile&)>& write, const CsvLayout& layout) {
  std::filesystem::path temporary = path_;
  temporary += ".tmp";
  try {
    auto file = std::make_unique<OutputFile>(temporary, true);
    write(*file);
    const std::int64_t size = file->size();
    file->rename_to(path_);
    file_ = std::move(file);
    size_ = size;
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  header_end_ = static_cast<std::int64_t>(csv_header_text(layout.columns).size());
  room_end_ = static_cast<std::int64_t>(csv_header_line(layout).size()) - 1;
  columns_in_file_ = layout.columns.size();
}

}  // namespace levin
