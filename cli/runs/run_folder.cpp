#include "levin/cli/runs/run_folder.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "levin/cli/config/yaml_reader.h"
#include "levin/cli/runs/natural_order.h"
#include "levin/cli/runs/run_checkpoints.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/process_id.h"
#include "levin/core/base/text.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/written_files.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.yaml";
constexpr const char* kRunFile = "run.json";
constexpr const char* kTagsFile = "tags.json";

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

/// What `read` gives of a file; null where there is none, or, with a warning, where it cannot be read.
template <class Read>
Value read_if_there(RunFolder& run, const char* name, const Read& read) {
  const fs::path file = run.path / name;
  if (!is_there(file)) return {};
  try {
    return read(file);
  } catch (const Error& error) {
    run.warnings.push_back(format("{} cannot be read: {}", name, error.what()));
    return {};
  }
}

/// Throws IoError where it is not a plain file, or longer than what a run writes. What a link leads to may not be meant for the
/// pages that show it.
std::string text_of(const fs::path& file) {
  constexpr std::size_t kLongest = std::size_t{64} << 20U;
  if (auto text = file_bytes(file, kLongest, Links::kRefused)) return std::move(*text);
  throw IoError(format("it is a link, or no plain file of at most {} MB", kLongest >> 20U));
}

Value read_json_file(const fs::path& file) { return parse_json(text_of(file)); }

/// An earlier levin has masked nothing.
Value read_yaml_text(const fs::path& file) { return masked(read_yaml(SourceText(file, text_of(file)))); }

std::string text_at(const Value& map, const char* key) {
  const Value* const value = map.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

std::int64_t int_at(const Value& map, const char* key, std::int64_t otherwise) {
  const Value* const value = map.find(key);
  return value != nullptr && value->is_int() ? value->as_int() : otherwise;
}

/// The texts of a list; none of another value.
void add_texts(std::vector<std::string>& texts, const Value* list) {
  for (const Value& text : list != nullptr && list->is_list() ? list->as_list() : Value::List{}) {
    if (text.is_string()) texts.push_back(text.as_string());
  }
}

/// Whether the process of a run.json exists. An earlier levin did not say when it began.
bool is_alive(const Value& record) {
  const auto process = static_cast<pid_t>(int_at(record, "pid", 0));
  if (process <= 0) return false;
  const std::int64_t start = int_at(record, "process_start", 0);
  if (start == 0) return kill(process, 0) == 0 || errno == EPERM;
  return process_state({process, static_cast<std::uint64_t>(start)}) != ProcessState::kGone;
}

/// Seconds from a run's start, in those since 1970, until its last row.
double seconds_until_last_row(const RunFolder& run, double started) {
  std::error_code none;
  const fs::file_time_type written = fs::last_write_time(run.metrics_file(), none);
  if (none) return 0;
  const auto since_1970 = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::max(0.0, std::chrono::duration<double>(since_1970).count() - started);
}

double number_at(const Value& map, const char* key, double otherwise) {
  const Value* const value = map.find(key);
  return value != nullptr && value->is_number() ? value->as_double() : otherwise;
}

/// What run.json says of metrics, if metrics.csv is still the file that it speaks of.
std::optional<RunSummary> summary_in(const Value& record, const fs::path& metrics_file) {
  const Value* const metrics = record.find("metrics");
  std::error_code none;
  const std::uintmax_t size = fs::file_size(metrics_file, none);
  const bool is_current = int_at(record, "metrics_csv_bytes", -1) == (none ? 0 : static_cast<std::int64_t>(size));
  if (metrics == nullptr || !metrics->is_map() || !is_current) return std::nullopt;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  RunSummary summary{.metrics = {}, .epochs = int_at(record, "epochs", 0)};
  for (const auto& [name, metric] : metrics->as_map()) {
    const MetricSummary read{number_at(metric, "last", kNaN), number_at(metric, "min", kNaN), number_at(metric, "max", kNaN)};
    if (std::isfinite(read.min) && std::isfinite(read.max)) summary.metrics.emplace(name, read);
  }
  return summary;
}

/// True also for a missing file.
bool is_older_than_an_hour(const fs::path& file) {
  std::error_code none;
  const fs::file_time_type written = fs::last_write_time(file, none);
  return none || fs::file_time_type::clock::now() - written > std::chrono::hours(1);
}

void take_state(RunFolder& run, const Value& record) {
  if (!record.is_map()) return;
  if (const std::string status = text_at(record, "status"); !status.empty()) run.status = status;
  run.started = text_at(record, "started");
  run.failure = text_at(record, "failure");
  run.stop_reason = text_at(record, "stop_reason");
  add_texts(run.warnings, record.find("warnings"));
  run.ranks = std::max(std::int64_t{1}, int_at(record, "ranks", 1));
  run.seconds = number_at(record, "seconds", 0);
  run.summary = summary_in(record, run.metrics_file());
  if (run.status != "running") return;
  run.seconds = seconds_until_last_row(run, number_at(record, "started_seconds", std::numeric_limits<double>::infinity()));
  const std::int64_t process = int_at(record, "pid", 0);
  if (text_at(record, "host") != host_name()) {
    // It is unknown.
    run.is_stale = is_older_than_an_hour(run.path / kRunFile) && is_older_than_an_hour(run.metrics_file());
    return;
  }
  if (is_alive(record)) return;
  run.status = "failed";
  run.is_lost = true;
  run.failure = format("its process {} is gone: it was killed, or the machine restarted", process);
}

/// The path without "." and "..", and without a slash at its end.
fs::path plain_path(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() || !normal.has_relative_path() ? normal : normal.parent_path();
}

/// `folder` and what is below it, without what cannot be read.
void add_runs_below(const fs::path& folder, std::vector<fs::path>& found) {
  if (is_written_by_run(folder)) found.push_back(folder);
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_directory(gone)) continue;
    const std::string name = entry->path().filename();
    if (name == "checkpoints" || name.starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (!entry->is_symlink(gone) && is_written_by_run(entry->path())) {
      found.push_back(entry->path());
    }
  }
}

/// What all of these lie in.
fs::path common_folder(const std::vector<fs::path>& paths) {
  fs::path common = folder_of(paths.front());
  for (const fs::path& path : paths) {
    const fs::path folder = folder_of(path);
    const auto [end, _] = std::mismatch(common.begin(), common.end(), folder.begin(), folder.end());
    fs::path shared;
    for (auto part = common.begin(); part != end; ++part) shared /= *part;
    common = shared;
  }
  return common;
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  return is_there(folder / "metrics.csv") || is_there(folder / kConfigFile) || is_there(folder / kRunFile);
}

bool is_written_by_run(const fs::path& folder) {
  if (is_there(folder / "metrics.csv") || is_there(folder / kRunFile)) return true;
  constexpr std::string_view kTitle = "# levin ";
  return first_bytes(folder / kConfigFile, kTitle.size()) == kTitle;
}

RunFolder read_run_folder(const fs::path& folder, RunDetail detail) {
  if (!is_run_folder(folder))
    throw IoError(format("{} is not the folder of a run: it has no metrics.csv, config.yaml or run.json{}",
                         quoted_text(folder.native()), working_folder_of(folder)));
  RunFolder run;
  run.path = plain_path(folder);
  run.name = run.path.filename();
  if (detail >= RunDetail::kSettings) {
    run.config = read_if_there(run, kConfigFile, read_yaml_text);
    run.hyperparams = read_if_there(run, "hparams.yaml", read_yaml_text);
  }
  take_state(run, read_if_there(run, kRunFile, read_json_file));
  const Value tags = read_if_there(run, kTagsFile, read_json_file);
  add_texts(run.tags, &tags);
  if (detail == RunDetail::kAll) run.checkpoints = read_checkpoints(run.path / "checkpoints");
  return run;
}

std::vector<fs::path> default_run_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const char* name : {"logs", "sweeps"}) {
    if (fs::is_directory(name, ignored)) folders.emplace_back(name);
  }
  return folders.empty() ? std::vector<fs::path>{"."} : folders;
}

std::vector<fs::path> find_run_paths(const std::vector<fs::path>& folders) {
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored))
      throw IoError(format("there is no folder {}{}", quoted_text(folder.native()), working_folder_of(folder)));
    add_runs_below(plain_path(folder), found);
  }
  if (found.empty()) {
    const std::string places = join(folders, ", ", [](const fs::path& folder) { return quoted_text(folder.native()); });
    throw IoError(
        format("there is no run in {}: the folder of a run has metrics.csv, run.json or the config.yaml of one", places));
  }
  std::sort(found.begin(), found.end(),
            [](const fs::path& one, const fs::path& other) { return comes_before(one.native(), other.native()); });
  std::set<fs::path> seen;
  std::erase_if(found, [&](const fs::path& path) {
    std::error_code ignored;
    return !seen.insert(fs::weakly_canonical(path, ignored)).second;
  });
  return found;
}

std::vector<std::string> run_names(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  if (paths.empty()) return names;
  const fs::path common = common_folder(paths);
  for (const fs::path& path : paths) names.push_back(common.empty() ? path : path.lexically_relative(common));
  return names;
}

std::vector<RunFolder> find_runs(const std::vector<fs::path>& folders) {
  const std::vector<fs::path> paths = find_run_paths(folders);
  const std::vector<std::string> names = run_names(paths);
  std::vector<RunFolder> runs;
  for (std::size_t index = 0; index < paths.size(); ++index) {
    runs.push_back(read_run_folder(paths[index]));
    runs.back().name = names[index];
  }
  return runs;
}

void write_tags(const fs::path& run, const std::vector<std::string>& tags) {
  if (written_files(run)) list_written_files(run);
  write_file(run / kTagsFile, plain_json(Value::List(tags.begin(), tags.end())), AtomicFile::MissingFolder::kRefuse);
}

}  // namespace levin::cli
