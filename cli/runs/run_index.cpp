#include "levin/cli/runs/run_index.h"

#include <sqlite3.h>

#include <array>
#include <system_error>
#include <vector>

#include "levin/cli/runs/run_folder.h"
#include "levin/cli/runs/sqlite_statement.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/paths.h"
#include "levin/core/options/value_json.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "runs.sqlite";
/// Of the tables: a file of another version is made anew.
constexpr std::int64_t kVersion = 1;

constexpr std::array<const char*, 4> kTables = {
    "PRAGMA synchronous = OFF",
    "CREATE TABLE IF NOT EXISTS runs (path TEXT PRIMARY KEY, stamp TEXT, status TEXT, started TEXT, seconds REAL, "
    "epochs INTEGER, failure TEXT, tags TEXT, config TEXT)",
    "CREATE TABLE IF NOT EXISTS metrics (path TEXT, name TEXT, last REAL, min REAL, max REAL, PRIMARY KEY (path, name))",
    "PRAGMA user_version = 1",
};

void execute(sqlite3* database, const char* sql) { SqliteStatement(database, sql).run(); }

/// True where the tables are those of this version, or there are none yet.
bool is_of_this_version(sqlite3* database) {
  SqliteStatement version(database, "PRAGMA user_version");
  SqliteStatement tables(database, "SELECT count(*) FROM sqlite_master");
  return version.next() && tables.next() && (version.integer(0) == kVersion || tables.integer(0) == 0);
}

Value tags_value(const std::vector<std::string>& tags) { return Value::List(tags.begin(), tags.end()); }

/// Takes back everything since it was made, unless commit() comes first.
class Transaction {
 public:
  explicit Transaction(sqlite3* database) : database_(database) { execute(database, "BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (database_ != nullptr) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit() {
    execute(database_, "COMMIT");
    database_ = nullptr;
  }

 private:
  sqlite3* database_;
};

void remove_rows(sqlite3* database, const std::string& key) {
  SqliteStatement(database, "DELETE FROM runs WHERE path = ?").add(key).run();
  SqliteStatement(database, "DELETE FROM metrics WHERE path = ?").add(key).run();
}

}  // namespace

void RunIndex::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

// A run has no index of its own.
RunIndex::RunIndex(const fs::path& folder) : folder_(fs::absolute(folder).lexically_normal()) {
  if (is_run_folder(folder_)) return;
  try {
    open();
  } catch (const IoError&) {
    // Damaged, or not a database: all that it held is in the folders.
    database_.reset();
    std::error_code ignored;
    fs::remove(folder_ / kFileName, ignored);
    try {
      open();
    } catch (const IoError&) {
      database_.reset();
    }
  }
}

RunIndex::~RunIndex() = default;

void RunIndex::open() {
  constexpr int kPatienceMilliseconds = 2000;
  sqlite3* database = nullptr;
  const int result = sqlite3_open((folder_ / kFileName).c_str(), &database);
  database_.reset(database);
  if (result != SQLITE_OK) throw IoError(format("SQLite: {}", sqlite3_errmsg(database)));
  sqlite3_busy_timeout(database, kPatienceMilliseconds);
  if (!is_of_this_version(database)) throw IoError("SQLite: the tables are of another version");
  for (const char* sql : kTables) execute(database, sql);
}

std::string RunIndex::key_of(const fs::path& run) const {
  const fs::path below = fs::absolute(run).lexically_normal().lexically_relative(folder_);
  return leaves_folder(below) ? "" : below.string();
}

std::optional<RunRecord> RunIndex::find(const fs::path& run) {
  if (!database_) return std::nullopt;
  try {
    const std::string key = key_of(run);
    SqliteStatement row(
        database_.get(),
        "SELECT status, started, seconds, epochs, failure, tags, config FROM runs WHERE path = ? AND stamp = ?");
    if (!row.add(key).add(stamp_of(run)).next()) return std::nullopt;
    RunRecord record{.path = run,
                     .name = run.filename(),
                     .status = row.text(0),
                     .started = row.text(1),
                     .seconds = row.number(2),
                     .failure = row.text(4),
                     .tags = {},
                     .config = parse_json(row.text(6)),
                     .summary = {.metrics = {}, .epochs = row.integer(3)}};
    const Value tags = parse_json(row.text(5));
    for (const Value& tag : tags.as_list()) record.tags.push_back(tag.as_string());
    SqliteStatement metrics(database_.get(), "SELECT name, last, min, max FROM metrics WHERE path = ?");
    metrics.add(key);
    while (metrics.next()) record.summary.metrics[metrics.text(0)] = {metrics.number(1), metrics.number(2), metrics.number(3)};
    return record;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void RunIndex::put(const RunRecord& run) {
  const std::string key = key_of(run.path);
  if (!database_ || key.empty() || run.status == "running") return;
  try {
    Transaction transaction(database_.get());
    remove_rows(database_.get(), key);
    SqliteStatement(database_.get(), "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .add(key)
        .add(stamp_of(run.path))
        .add(run.status)
        .add(run.started)
        .add(run.seconds)
        .add(run.summary.epochs)
        .add(run.failure)
        .add(to_json(tags_value(run.tags)))
        .add(to_json(run.config))
        .run();
    for (const auto& [name, metric] : run.summary.metrics) {
      SqliteStatement row(database_.get(), "INSERT INTO metrics VALUES (?, ?, ?, ?, ?)");
      row.add(key).add(name).add(metric.last).add(metric.min).add(metric.max).run();
    }
    transaction.commit();
  } catch (const IoError&) {
    // Read-only, a full disk: the list is right without it.
    database_.reset();
  }
}

void RunIndex::forget_missing() {
  if (!database_) return;
  try {
    std::vector<std::string> gone;
    SqliteStatement rows(database_.get(), "SELECT path FROM runs");
    while (rows.next()) {
      if (!is_run_folder(folder_ / rows.text(0))) gone.push_back(rows.text(0));
    }
    for (const std::string& key : gone) remove_rows(database_.get(), key);
  } catch (const IoError&) {
    database_.reset();
  }
}

std::string stamp_of(const fs::path& run) {
  std::string stamp;
  for (const char* name : {"run.json", "metrics.csv", "metrics.csv.journal", "config.yaml", "tags.json"}) {
    std::error_code missing;
    const fs::file_time_type time = fs::last_write_time(run / name, missing);
    const std::uintmax_t size = missing ? 0 : fs::file_size(run / name, missing);
    stamp += missing ? " -" : format(" {}:{}", size, time.time_since_epoch().count());
  }
  return stamp;
}

}  // namespace levin::cli
