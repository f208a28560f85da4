#include "levin/loggers/tensorboard/tensorboard_logger.h"

#include <chrono>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/options/registry.h"
#include "levin/loggers/media_folder.h"
#include "levin/loggers/tensorboard/event_file.h"
#include "levin/loggers/tensorboard/summaries.h"
#include "levin/loggers/version_folder.h"
#include "tensorboard/messages.pb.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

std::string rank_folder(int rank) { return format("rank_{}", rank); }

/// Lets the event files of `earlier` be in `folder` too. They are never written to again, so that a link does. Throws IoError.
void bring_event_files(const fs::path& earlier, const fs::path& folder) {
  for (const fs::path& file : tensorboard::EventFile::files_in(earlier)) {
    const fs::path here = folder / file.filename();
    if (fs::exists(here)) continue;
    std::error_code error;
    fs::create_hard_link(file, here, error);
    if (error) fs::copy_file(file, here, error);
    if (error) throw IoError(format("TensorBoardLogger: cannot copy {} to {}: {}", file, folder, error.message()));
  }
}

}  // namespace

LEVIN_REGISTER_(Logger, TensorBoardLogger, "TensorBoardLogger",
                "Writes metrics, images, histograms, texts and hyper-parameters for TensorBoard");

void TensorBoardLoggerOptions::declare(OptionList<TensorBoardLoggerOptions>& options) {
  using O = TensorBoardLoggerOptions;
  declare_version_folder(options);
  options.add(&O::per_rank, "Every rank's own unreduced values are a run beside, rank_{rank}");
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
  // A second run with the same logger (a test after a fit) goes on in the same folder.
  if (folder_.empty()) {
    const auto has_none = [](const fs::path& folder) { return EventFile::files_in(folder).empty(); };
    folder_ = version_folder(run.default_root_dir).make(run, has_none);
  }
  return folder_.string();
}

void TensorBoardLogger::attach(const RunInfo& run, const std::string& token) {
  folder_ = token;
  rank_ = run.rank;
  first_step_ = run.resuming ? run.resume_step : 0;
  earlier_folder_.clear();
  if (run.resuming && !run.resume_checkpoint.empty()) {
    const fs::path earlier = version_folder(run.default_root_dir).of_checkpoint(run.resume_checkpoint, "");
    std::error_code gone;
    if (!fs::equivalent(earlier, folder_, gone) && !gone) earlier_folder_ = earlier;
  }
  media_ = std::make_unique<MediaFolder>(folder_);
  if (run.rank == 0) {
    if (!file_) {
      if (!earlier_folder_.empty()) bring_event_files(earlier_folder_, folder_);
      file_ = begin_file(folder_);
    } else if (run.resuming) {
      file_->add_before_next(tensorboard::restart_event(first_step_));
    }
  }
  if (options_.per_rank) own_file();
}

std::unique_ptr<tensorboard::EventFile> TensorBoardLogger::begin_file(const fs::path& folder) const {
  const bool goes_on = !EventFile::files_in(folder).empty();
  auto file = std::make_unique<EventFile>(folder, std::chrono::duration<double>(options_.flush_secs));
  if (goes_on) file->add_before_next(tensorboard::restart_event(first_step_));
  return file;
}

tensorboard::EventFile& TensorBoardLogger::own_file() {
  const std::lock_guard lock(own_file_mutex_);
  if (!own_file_) {
    const fs::path folder = folder_ / rank_folder(rank_);
    make_folder(folder);
    if (!earlier_folder_.empty()) bring_event_files(earlier_folder_ / rank_folder(rank_), folder);
    own_file_ = begin_file(folder);
  }
  return *own_file_;
}

void TensorBoardLogger::log_metrics(const MetricRow& row) {
  if (!file_) throw MisuseError("TensorBoardLogger: log_metrics() before open() and attach()");
  for (const auto& [name, value] : row.values) metrics_.insert(name);
  file_->add(tensorboard::scalars_event(row));
}

void TensorBoardLogger::log_rank_metrics(const MetricRow& row) {
  const std::int64_t index = row.evaluation_batch.value_or(row.step);
  if (row.epoch_end || (index + 1) % options_.every_n_steps == 0) own_file().add(tensorboard::scalars_event(row));
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
    fs::remove(std::exchange(folder_, {}), ignored);
    return;
  }
  if (file_) {
    file_->add(tensorboard::experiment_event(hyperparams_, metrics_));
    file_->add(tensorboard::end_event(status));
  }
  save();
}

}  // namespace levin
