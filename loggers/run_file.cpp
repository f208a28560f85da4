#include "levin/loggers/run_file.h"

#include <unistd.h>

#include <cstdint>

#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/logger.h"
#include "levin/core/options/value_json.h"
#include "levin/loggers/wall_clock.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

fs::path run_file(const fs::path& folder) { return folder / "run.json"; }

void write_record(const fs::path& folder, const Value& record) {
  write_file(run_file(folder), plain_json(record), AtomicFile::MissingFolder::kRefuse);
}

/// What note_start() has written; empty where somebody has changed or removed it since.
Value read_record(const fs::path& folder) {
  try {
    Value record = parse_json(file_bytes(run_file(folder)).value_or(""));
    if (record.is_map()) return record;
  } catch (const IoError&) {
  }
  return Value(Value::Map{});
}

}  // namespace

void note_start(const fs::path& folder, int ranks) {
  const auto process = static_cast<std::int64_t>(getpid());
  Value record = read_record(folder);
  const Value* const earlier = record.find("pid");
  const bool goes_on = earlier != nullptr && *earlier == Value(process) && record.find("started") != nullptr;
  if (!goes_on) {
    record = Value::Map{{"status", ""},
                        {"started", local_time("%F %T")},
                        {"started_seconds", seconds_now()},
                        {"pid", process},
                        {"host", host_name()},
                        {"ranks", ranks}};
  }
  record["status"] = "running";
  write_record(folder, record);
}

void note_end(const fs::path& folder, const RunOutcome& outcome) {
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
  write_record(folder, record);
}

bool remove_unused(const fs::path& folder) {
  std::error_code error;
  const fs::path own = run_file(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path() != own) return false;
  }
  fs::remove(own, error);
  return fs::remove(folder, error);
}

}  // namespace levin
