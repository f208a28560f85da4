#include "levin/loggers/csv_logger.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"
#include "levin/core/options/registry.h"
#include "levin/core/yaml/to_yaml.h"
#include "levin/loggers/metrics_file.h"
#include "levin/loggers/run_file.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, const std::error_code& error) {
  throw IoError(format("cannot {} {}: {}", what, path, error.message()));
}

// N of "version_N", or -1 for another name.
std::int64_t version_number(const std::string& name) {
  constexpr std::string_view kPrefix = "version_";
  if (!name.starts_with(kPrefix)) return -1;
  std::int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  // A run counts from 0. What is far from there is somebody's text, and has no next number in 64 bits.
  constexpr std::int64_t kHighest = 999'999'999'999;
  return error == std::errc() && stop == end && number >= 0 && number <= kHighest ? number : -1;
}

/// Makes a folder and those above it; fine when it exists. Throws: IoError.
void make_folder(const fs::path& folder) {
  // The system ends a path there: what is made would be another folder than what is looked for.
  if (folder.native().find('\0') != std::string::npos)
    throw ConfigError("the path of a folder has a NUL character (\\0) in it");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("make the folder", folder, error);
  if (!fs::is_directory(folder, error)) fail("make the folder", folder, std::make_error_code(std::errc::not_a_directory));
}

/// The folders `version_N` in `root`, the highest N first.
std::vector<fs::path> version_folders(const fs::path& root) {
  std::vector<std::pair<std::int64_t, fs::path>> numbered;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::int64_t number = version_number(entry->path().filename().string());
    if (number >= 0) numbered.emplace_back(number, entry->path().lexically_normal());
  }
  std::sort(numbered.rbegin(), numbered.rend());
  std::vector<fs::path> folders;
  for (auto& [number, folder] : numbered) folders.push_back(std::move(folder));
  return folders;
}

/// Makes the folder `version_N` in `root`, N one above the highest there is, and gives its path. Two runs that do this at the
/// same moment get two folders. Throws: IoError.
fs::path make_next_version_folder(const fs::path& root) {
  make_folder(root);
  const std::vector<fs::path> folders = version_folders(root);
  for (std::int64_t next = folders.empty() ? 0 : version_number(folders.front().filename().string()) + 1;; ++next) {
    const fs::path folder = root / format("version_{}", next);
    // Of two runs, one makes the folder and the other is told that it is there.
    std::error_code error;
    const bool made = fs::create_directory(folder, error);
    if (error) fail("make the folder", folder, error);
    if (made) return folder;
  }
}

/// Names for FILE that is set aside: `FILE.bak-1`, `FILE.bak-2`, …
NameAside names_aside(const fs::path& file) {
  return [name = file.filename().string()](int number) { return format("{}.bak-{}", name, number); };
}

}  // namespace

LEVIN_REGISTER_(Logger, CsvLogger, "CSVLogger", "Writes metrics to metrics.csv and hyper-parameters to hparams.yaml");

void CsvLoggerOptions::declare(OptionList<CsvLoggerOptions>& options) {
  using O = CsvLoggerOptions;
  options.add(&O::save_dir, "Folder under which logs are written; null: the Trainer's default_root_dir");
  options.add(&O::name, "Folder below save_dir that the versions of an experiment share; empty: none");
  options.add(&O::version, "Folder of this run: an int N for version_N, a string as it is, null for the next free N");
  options.add(&O::prefix, "Put before each metric's name, with a '-'");
  options.add(&O::flush_logs_every_n_steps, "Steps after which rows are on the disk at the latest").min(1);
  options.add(&O::per_rank, "Every rank also writes its own unreduced values to metrics_rank_{rank}.csv");
  options.add(&O::every_n_steps, "With per_rank: steps between rows of step values").min(1);
  options.rule({"version"}, [](const O& logger) {
    const Value& version = logger.version;
    const bool has_meaning = version.is_null() || (version.is_int() && version.as_int() >= 0) ||
                             (version.is_string() && !version.as_string().empty());
    return has_meaning ? "" : "version is the number of a run (from 0 on), or the name of its folder";
  });
  const auto check_folder = [](const char* option, const std::string& folder) -> std::string {
    if (!leaves_folder(folder)) return "";
    return format("{} is {}, which leads out of save_dir: say with save_dir where to write", option, quoted_text(folder));
  };
  options.rule({"name"}, [=](const O& logger) { return check_folder("name", logger.name); });
  options.rule({"version"}, [=](const O& logger) {
    return check_folder("version", logger.version.is_string() ? logger.version.as_string() : "");
  });
}

CsvLogger::CsvLogger(Options options) : options_(checked("CSVLogger", std::move(options))) {}

CsvLogger::CsvLogger(CsvLogger&& other) noexcept = default;
CsvLogger::~CsvLogger() = default;

std::string CsvLogger::open(const RunInfo& run) {
  // A second run with the same logger (a test after a fit) goes on in the same folder.
  if (folder_.empty()) {
    fs::path folder(run.earlier_token);
    if (folder.empty()) {
      const fs::path root = experiment_folder(run);
      const auto version = version_name();
      folder = version ? root / *version : make_next_version_folder(root);
    }
    make_folder(folder);  // an attempt that wrote nothing has left none
    use_folder(folder.lexically_normal());
  }
  prepare(metrics_, "metrics.csv", run, run.resume_rows.rows);
  return folder_.string();
}

void CsvLogger::attach(const RunInfo& run, const std::string& token) {
  use_folder(token);
  if (run.rank == 0) note_start(folder_, run.world_size);
  if (!options_.per_rank) return;
  make_folder(folder_);  // another host may not share rank 0's disk
  prepare(rank_metrics_, format("metrics_rank_{}.csv", run.rank), run, run.resume_rows.rank_rows);
}

fs::path CsvLogger::experiment_folder(const RunInfo& run) const {
  // Not absolute(), which takes no empty path: default_root_dir is one outside of a Trainer.
  return fs::current_path() / options_.save_dir.value_or(run.default_root_dir) / options_.name;
}

/// The name of the version's folder, when the options say it.
std::optional<std::string> CsvLogger::version_name() const {
  const Value& version = options_.version;
  if (version.is_null()) return std::nullopt;
  return version.is_int() ? format("version_{}", version.as_int()) : version.as_string();
}

std::vector<fs::path> CsvLogger::earlier_runs(const RunInfo& run) const {
  if (const auto version = version_name()) return {(experiment_folder(run) / *version).lexically_normal()};
  std::vector<fs::path> folders = version_folders(experiment_folder(run));
  // What there would be: so that a search which finds nothing says where it looked.
  if (folders.empty()) folders.push_back(experiment_folder(run) / "version_0");
  return folders;
}

void CsvLogger::use_folder(const fs::path& folder) {
  folder_ = folder;
  version_ = options_.version.is_string() ? options_.version.as_string() : folder_.filename().string();
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
    const fs::path history = earlier_folder(run, file_name) / file_name;
    if (fs::exists(history)) file->start_from(history, earlier);
  } else if (exists && !used_before) {
    const fs::path aside = set_aside(path, names_aside(path));
    std::error_code no_journal;
    fs::rename(MetricsFile::journal_of(path), MetricsFile::journal_of(aside), no_journal);
    Console::instance().warn(
        format("{} is of an earlier run, which this run does not resume: it is kept as {}", path, aside.filename()));
  }
}

fs::path CsvLogger::earlier_folder(const RunInfo& run, const std::string& file_name) const {
  // SAVE_DIR/NAME/VERSION/checkpoints/FILE. With several loggers it is the first whose folder this is; the others, of other
  // names, wrote to folders beside it.
  const fs::path folder = run.resume_checkpoint.parent_path().parent_path();
  const fs::path own = folder.parent_path().parent_path() / options_.name / folder.filename();
  return !options_.name.empty() && fs::exists(own / file_name) ? own : folder;
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
  const std::int64_t index = row.evaluation_batch.value_or(row.step);
  if (row.epoch_end || (index + 1) % options_.every_n_steps == 0) append(*rank_metrics_, row);
}

void CsvLogger::log_hyperparams(const Value& hyperparams) {
  if (folder_.empty()) throw MisuseError("CSVLogger: log_hyperparams() before open()");
  if (hyperparams.size() == 0) return;
  for (const auto& [name, value] : hyperparams.as_map()) hyperparams_[name] = value;
  const fs::path file = folder_ / "hparams.yaml";
  write_file_beside_older(file, to_yaml(hyperparams_), names_aside(file), AtomicFile::MissingFolder::kRefuse);
}

RowCounts CsvLogger::rows_written() const {
  RowCounts counts;
  if (metrics_) counts.rows = metrics_->rows();
  if (rank_metrics_) counts.rank_rows = rank_metrics_->rows();
  return counts;
}

void CsvLogger::save() {
  if (metrics_) metrics_->flush();
  if (rank_metrics_) rank_metrics_->flush();
}

void CsvLogger::finalize(const std::string& status) {
  save();
  // A start that failed leaves no version behind: rank 0 removes the folder, if nothing is in it.
  if (metrics_ && status != "success" && remove_unused(folder_)) {
    metrics_.reset();
    folder_.clear();
    return;
  }
  if (metrics_ && !fs::exists(folder_)) {
    throw IoError(format("the log folder {} is gone: it was removed while the run was on", folder_));
  }
  if (metrics_) note_end(folder_, status);
  for (MetricsFile* file : {metrics_.get(), rank_metrics_.get()}) {
    if (file == nullptr) continue;
    try {
      file->tidy();
    } catch (const IoError& error) {
      // All rows are there, only not in their final form: no reason to fail a run that is done.
      Console::instance().warn(
          format("{} stays as it is, its columns in the order of their first values: {}", file->path(), error.what()));
    }
  }
}

}  // namespace levin
