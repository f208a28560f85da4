#include "levin/loggers/csv_logger.h"

#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/written_files.h"
#include "levin/loggers/media_folder.h"
#include "levin/loggers/metrics_file.h"
#include "levin/loggers/rank_rows.h"
#include "levin/loggers/run_file.h"
#include "levin/loggers/version_folder.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// Names for an old FILE: `FILE.bak-1`, `FILE.bak-2`, …
BackupName backup_names(const fs::path& file) {
  return [name = file.filename().string()](int number) { return format("{}.bak-{}", name, number); };
}

}  // namespace

LEVIN_REGISTER_(Logger, CsvLogger, "CSVLogger", "Writes metrics to metrics.csv and hyper-parameters to hparams.yaml");

void CsvLoggerOptions::declare(OptionList<CsvLoggerOptions>& options) {
  using O = CsvLoggerOptions;
  declare_version_folder(options);
  options.add(&O::prefix, "Put before each metric's name, with a '-'");
  options.add(&O::flush_logs_every_n_steps, "Steps after which rows are on the disk at the latest").min(1);
  options.add(&O::per_rank, "Every rank also writes its own unreduced values to metrics_rank_{rank}.csv");
  options.add(&O::every_n_steps, "With per_rank: steps between rows of step values").min(1);
}

CsvLogger::CsvLogger(Options options) : options_(checked("CSVLogger", std::move(options))) {}

CsvLogger::CsvLogger(CsvLogger&& other) noexcept = default;
CsvLogger::~CsvLogger() = default;

std::string CsvLogger::open(const RunInfo& run) {
  // A second run with the same logger (a test after a fit) continues in the same folder.
  if (folder_.empty()) use_folder(version_folder(run).make(run));
  note_start(folder_, run.world_size);
  noted_at_.reset();
  prepare(metrics_, "metrics.csv", run, run.resume_rows.rows);
  return folder_.string();
}

void CsvLogger::attach(const RunInfo& run, const std::string& token) {
  use_folder(token);
  list_written_files(folder_);
  if (!options_.per_rank) return;
  make_folder(folder_);  // another host may not share rank 0's disk
  prepare(rank_metrics_, format("metrics_rank_{}.csv", run.rank), run, run.resume_rows.rank_rows);
}

VersionFolder CsvLogger::version_folder(const RunInfo& run) const { return VersionFolder::of(options_, run.default_root_dir); }

std::vector<fs::path> CsvLogger::earlier_runs(const RunInfo& run) const { return version_folder(run).earlier(); }

void CsvLogger::use_folder(const fs::path& folder) {
  folder_ = folder;
  version_ = version_folder({}).version_of(folder);
  media_ = std::make_unique<MediaFolder>(folder);
}

void CsvLogger::prepare(std::unique_ptr<MetricsFile>& file, const std::string& file_name, const RunInfo& run,
                        std::int64_t rows) {
  const RowFilter earlier{.end_step = run.resume_step, .rows = rows < 0 ? std::nullopt : std::optional(rows)};
  const fs::path path = folder_ / file_name;
  const bool used_before = file != nullptr;
  if (!used_before) file = std::make_unique<MetricsFile>(path, options_.flush_logs_every_n_steps);
  const bool exists = fs::exists(path);
  if (run.resuming && exists) {
    file->start_from(path, earlier);
  } else if (!run.earlier_token.empty() && exists && !used_before) {
    file->start_from(path, {.end_step = {}, .rows = 0});  // an attempt that failed before its first checkpoint
  } else if (run.resuming && !run.resume_checkpoint.empty()) {
    const fs::path history = version_folder(run).of_checkpoint(run.resume_checkpoint, file_name) / file_name;
    if (fs::exists(history)) file->start_from(history, earlier);
  } else if (exists && !used_before) {
    const fs::path backup = move_to_backup(path, backup_names(path));
    Console::instance().warn(
        format("{} is of an earlier run, which this run does not resume: it is saved as {}", path, backup.filename()));
  }
}

void CsvLogger::append(MetricsFile& file, const MetricRow& row) {
  if (options_.prefix.empty()) return file.append(row);
  MetricRow prefixed = row;
  prefixed.values.clear();
  for (const auto& [name, value] : row.values) prefixed.values.emplace(options_.prefix + "-" + name, value);
  file.append(prefixed);
}

void CsvLogger::log_metrics(const MetricRow& row) {
  if (!metrics_) throw MisuseError("CSVLogger: log_metrics() before open()");
  append(*metrics_, row);
}

void CsvLogger::log_rank_metrics(const MetricRow& row) {
  if (!rank_metrics_) throw MisuseError("CSVLogger: log_rank_metrics() before attach(), or without per_rank");
  if (is_rank_row_due(row, options_.every_n_steps)) append(*rank_metrics_, row);
}

bool CsvLogger::log_item(const LoggedItem& item) {
  if (!media_) throw MisuseError("CSVLogger: log_item() before attach()");
  media_->write(item);
  return true;
}

void CsvLogger::log_hyperparams(const Value& hyperparams) {
  if (folder_.empty()) throw MisuseError("CSVLogger: log_hyperparams() before open()");
  if (hyperparams.size() == 0) return;
  for (const auto& [name, value] : hyperparams.as_map()) hyperparams_[name] = value;
  const fs::path file = folder_ / "hparams.yaml";
  write_file_with_backup(file, to_yaml(hyperparams_), backup_names(file), AtomicFile::MissingFolder::kRefuse);
}

RowCounts CsvLogger::rows_written() const {
  RowCounts counts;
  if (metrics_) counts.rows = metrics_->rows();
  if (rank_metrics_) counts.rank_rows = rank_metrics_->rows();
  return counts;
}

void CsvLogger::flush() {
  if (metrics_) metrics_->flush();
  if (rank_metrics_) rank_metrics_->flush();
}

void CsvLogger::save() {
  constexpr std::chrono::seconds kBetweenNotes(10);
  flush();
  const auto now = std::chrono::steady_clock::now();
  if (!metrics_ || (noted_at_ && now - *noted_at_ < kBetweenNotes)) return;
  noted_at_ = now;
  try {
    note_metrics(folder_, metrics_->summary());
  } catch (const IoError&) {  // not worth a run: its end tries again
  }
}

void CsvLogger::finalize(const std::string& status) {
  flush();
  // A start that failed leaves no version behind: rank 0 removes the folder, if nothing is in it.
  if (metrics_ && status != "success" && remove_unused_folder(folder_, {kRunFile})) {
    metrics_.reset();
    folder_.clear();
    return;
  }
  if (metrics_ && !fs::exists(folder_)) {
    throw IoError(format("the log folder {} is gone: it was removed during the run", folder_));
  }
  const auto tidy = [](MetricsFile& file) {
    try {
      file.tidy();
    } catch (const IoError& error) {
      // All rows are there, only not in their final form: no reason to fail a run that is done.
      Console::instance().warn(
          format("{} stays unchanged, with its columns in the order of their first values: {}", file.path(), error.what()));
    }
  };
  if (rank_metrics_) tidy(*rank_metrics_);
  if (!metrics_) return;
  tidy(*metrics_);
  outcome_.status = status;
  note_end(folder_, outcome_, metrics_->summary());
}

}  // namespace levin
