#include "levin/loggers/tensorboard/tensorboard_logger.h"

#include <chrono>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/files/written_files.h"
#include "levin/loggers/media_folder.h"
#include "levin/loggers/rank_rows.h"
#include "levin/loggers/tensorboard/earlier_events.h"
#include "levin/loggers/tensorboard/event_file.h"
#include "levin/loggers/tensorboard/summaries.h"
#include "levin/loggers/version_folder.h"
#include "tensorboard/messages.pb.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

std::string rank_folder(int rank) { return format("rank_{}", rank); }

}  // namespace

LEVIN_REGISTER_(Logger, TensorBoardLogger, "TensorBoardLogger",
                "Writes metrics, images, histograms, texts and hyper-parameters for TensorBoard");

void TensorBoardLoggerOptions::declare(OptionList<TensorBoardLoggerOptions>& options) {
  using O = TensorBoardLoggerOptions;
  declare_version_folder(options);
  options.add(&O::per_rank, "Each rank's unreduced values are a separate run, rank_{rank}");
  options.add(&O::every_n_steps, "With per_rank: steps between step values").min(1);
  options.add(&O::flush_secs, "Seconds after which all is on the disk at the latest").above(0);
}

TensorBoardLogger::TensorBoardLogger(Options options) : options_(checked("TensorBoardLogger", std::move(options))) {}
TensorBoardLogger::~TensorBoardLogger() = default;

VersionFolder TensorBoardLogger::version_folder(const fs::path& default_root_dir) const {
  return VersionFolder::of(options_, default_root_dir);
}

std::vector<fs::path> TensorBoardLogger::earlier_runs(const RunInfo& run) const {
  return version_folder(run.default_root_dir).earlier();
}

std::string TensorBoardLogger::version() const { return folder_.empty() ? "" : version_folder({}).version_of(folder_); }

std::string TensorBoardLogger::open(const RunInfo& run) {
  // A second run with the same logger (a test after a fit) continues in the same folder.
  if (folder_.empty()) {
    const auto has_none = [](const fs::path& folder) { return EventFile::files_in(folder).empty(); };
    folder_ = version_folder(run.default_root_dir).make(run, has_none);
  }
  return folder_.string();
}

void TensorBoardLogger::attach(const RunInfo& run, const std::string& token) {
  folder_ = token;
  list_written_files(folder_);
  run_ = run;
  media_ = std::make_unique<MediaFolder>(folder_);
  if (run.resuming) {
    file_.reset();  // events of later steps are removed
    own_file_.reset();
  }
  if (run.rank == 0 && !file_) file_ = begin_file("", run.resume_rows.rows, rows_.rows);
  if (options_.per_rank) own_file();
}

std::unique_ptr<tensorboard::EventFile> TensorBoardLogger::begin_file(const fs::path& below, std::int64_t known,
                                                                      std::int64_t& rows) const {
  const fs::path folder = folder_ / below;
  make_folder(folder);
  rows = 0;
  if (run_.resuming && !run_.resume_checkpoint.empty()) {
    const VersionFolder version = version_folder(run_.default_root_dir);
    const bool has_events_here = !EventFile::files_in(folder).empty();
    const fs::path earlier = has_events_here ? folder_ : version.of_checkpoint(run_.resume_checkpoint, "");
    rows = tensorboard::continue_events(earlier / below, folder, {.end_step = run_.resume_step, .rows = known});
  }
  const bool has_events = !EventFile::files_in(folder).empty();
  auto file = std::make_unique<EventFile>(folder, std::chrono::duration<double>(options_.flush_secs));
  if (has_events) file->add_before_next(tensorboard::restart_event(run_.resuming ? run_.resume_step : 0));
  return file;
}

tensorboard::EventFile& TensorBoardLogger::own_file() {
  const std::lock_guard lock(own_file_mutex_);
  if (!own_file_) own_file_ = begin_file(rank_folder(run_.rank), run_.resume_rows.rank_rows, rows_.rank_rows);
  return *own_file_;
}

RowCounts TensorBoardLogger::rows_written() const {
  // Without per_rank, another thread may be creating the rank's own file.
  return {file_ ? rows_.rows : -1, options_.per_rank ? rows_.rank_rows : -1};
}

void TensorBoardLogger::log_metrics(const MetricRow& row) {
  if (!file_) throw MisuseError("TensorBoardLogger: log_metrics() before open() and attach()");
  for (const auto& [name, value] : row.values) metrics_.insert(name);
  file_->add(tensorboard::scalars_event(row));
  ++rows_.rows;
}

void TensorBoardLogger::log_rank_metrics(const MetricRow& row) {
  if (!is_rank_row_due(row, options_.every_n_steps)) return;
  own_file().add(tensorboard::scalars_event(row));
  ++rows_.rank_rows;
}

bool TensorBoardLogger::log_item(const LoggedItem& item) {
  if (!media_) throw MisuseError("TensorBoardLogger: log_item() before attach()");
  if (item.kind() == LoggedItem::Kind::kFile) {
    media_->write(item);
    return true;
  }
  EventFile& file = item.rank == 0 ? *file_ : own_file();
  file.add(tensorboard::item_event(item));
  return true;
}

void TensorBoardLogger::log_hyperparams(const Value& hyperparams) {
  if (!file_) throw MisuseError("TensorBoardLogger: log_hyperparams() before open() and attach()");
  if (hyperparams.size() == 0) return;
  for (const auto& [name, value] : hyperparams.as_map()) hyperparams_[name] = value;
  file_->add(tensorboard::hparams_event(hyperparams_));
}

void TensorBoardLogger::save() {
  if (file_) file_->flush();
  const std::lock_guard lock(own_file_mutex_);
  if (own_file_) own_file_->flush();
}

void TensorBoardLogger::finalize(const std::string& status) {
  // A start that failed leaves no version behind: rank 0 removes the file, and the folder if nothing else is in it.
  if (file_ && status != "success" && !file_->has_events()) {
    const fs::path path = file_->path();
    file_.reset();
    std::error_code ignored;
    fs::remove(path, ignored);
    remove_unused_folder(std::exchange(folder_, {}));
    return;
  }
  if (file_) {
    file_->add(tensorboard::experiment_event(hyperparams_, metrics_));
    file_->add(tensorboard::end_event(status));
  }
  save();
}

}  // namespace levin
