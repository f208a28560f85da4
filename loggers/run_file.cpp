#include "levin/loggers/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/process_id.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"
#include "levin/core/logger.h"
#include "levin/loggers/metrics_file.h"
#include "levin/loggers/wall_clock.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

void write_record(const fs::path& folder, const Value& record) {
  write_file(folder / kRunFile, plain_json(record), AtomicFile::MissingFolder::kRefuse);
}

/// The file of note_start(); empty if it was replaced or removed since.
Value read_record(const fs::path& folder) {
  constexpr std::size_t kLongest = std::size_t{64} << 20U;
  try {
    Value record = parse_json(file_bytes(folder / kRunFile, kLongest).value_or(""));
    if (record.is_map()) return record;
  } catch (const IoError&) {
  }
  return Value(Value::Map{});
}

/// Renames a run.json of another program.
void back_up_if_foreign(const fs::path& folder, const Value& record) {
  const fs::path file = folder / kRunFile;
  std::error_code none;
  if (record.find("started") != nullptr || !fs::exists(fs::symlink_status(file, none))) return;
  const fs::path backup = move_to_backup(file, [](int number) { return format("{}.bak-{}", kRunFile, number); });
  Console::instance().warn(
      format("{} does not belong to a run of levin: it is saved as {}", as_typed(file), backup.filename().string()));
}

std::int64_t int_at(const Value& map, const char* key) {
  const Value* const value = map.find(key);
  return value != nullptr && value->is_int() ? value->as_int() : 0;
}

ProcessId process_in(const Value& record) {
  return {static_cast<pid_t>(int_at(record, "pid")), static_cast<std::uint64_t>(int_at(record, "process_start"))};
}

/// Makes other processes wait that start a run in the same folder, during a check and a write. Does without the lock if the
/// file system has none, or another process holds it for seconds.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr std::chrono::seconds kPatience(5);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (flock(folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  Descriptor folder_;  ///< closing it releases the lock
};

/// JSON has no number for these.
Value written(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

void add_summary(Value& record, const MetricsSummary& summary) {
  Value metrics(Value::Map{});
  for (const auto& [name, metric] : summary.metrics)
    metrics[name] = Value::Map{{"last", written(metric.last)}, {"min", written(metric.min)}, {"max", written(metric.max)}};
  record["metrics"] = std::move(metrics);
  record["epochs"] = summary.epochs;
  record["metrics_csv_bytes"] = summary.bytes;
}

}  // namespace

void refuse_if_in_use(const fs::path& folder) {
  const Value record = read_record(folder);
  const Value* const status = record.find("status");
  const Value* const host = record.find("host");
  const ProcessId process = process_in(record);
  const bool is_other = process.number > 0 && process.number != getpid();
  if (!is_other || status == nullptr || *status != Value("running") || host == nullptr || *host != Value(host_name())) return;
  if (process_state(process) == ProcessState::kGone) return;
  throw ConfigError(
      format("{} is the folder of a run that is still running (process {}): choose another `version`, leave it out for the "
             "next free one, "
             "or wait for the end of that run",
             as_typed(folder), process.number));
}

void note_start(const fs::path& folder, int ranks) {
  const FolderLock lock(folder);
  refuse_if_in_use(folder);
  const ProcessId self = ProcessId::self();
  Value record = read_record(folder);
  back_up_if_foreign(folder, record);
  const ProcessId earlier = process_in(record);
  const bool is_same_run =
      earlier.number == self.number && earlier.start_time == self.start_time && record.find("started") != nullptr;
  if (!is_same_run) {
    record = Value::Map{{"status", ""},
                        {"started", local_time("%F %T")},
                        {"started_seconds", seconds_now()},
                        {"pid", static_cast<std::int64_t>(self.number)},
                        {"process_start", static_cast<std::int64_t>(self.start_time)},
                        {"host", host_name()},
                        {"ranks", ranks}};
  }
  record["status"] = "running";
  // They are out of date now.
  std::erase_if(record.as_map(), [](const auto& entry) {
    return entry.first == "metrics" || entry.first == "epochs" || entry.first == "metrics_csv_bytes";
  });
  write_record(folder, record);
}

void note_metrics(const fs::path& folder, const MetricsSummary& summary) {
  Value record = read_record(folder);
  if (record.find("started") == nullptr) return;
  add_summary(record, summary);
  AtomicFile file(folder / kRunFile, AtomicFile::MissingFolder::kRefuse);
  file.write(plain_json(record));
  file.commit(AtomicFile::Disk::kLeaveToKernel);
}

void note_end(const fs::path& folder, const RunOutcome& outcome, const MetricsSummary& summary) {
  Value record = read_record(folder);
  record["status"] = outcome.status == "success" ? "finished" : outcome.status;
  if (const Value* const started = record.find("started_seconds"); started != nullptr && started->is_number())
    record["seconds"] = seconds_now() - started->as_double();
  if (!outcome.stop_reason.empty()) record["stop_reason"] = outcome.stop_reason;
  if (!outcome.failure.empty()) record["failure"] = outcome.failure;
  for (const std::string& warning : outcome.warnings) {
    if (record.find("warnings") == nullptr) record["warnings"] = Value::List();
    record["warnings"].push_back(warning);
  }
  add_summary(record, summary);
  write_record(folder, record);
}

}  // namespace levin
