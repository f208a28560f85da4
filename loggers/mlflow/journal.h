#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/core/files/atomic_file.h"

namespace levin::mlflow {

/// What a rank has logged for an MLflow server, and how much of it the server has: a file with one JSON text a line, which is
/// appended to, and beside it the state of its upload. A line of it is one of
///
///     {"uri": …, "key": …, "experiment": …, …}                            the first: which server, which run
///     {"row": 3, "step": 29, "time": …, "metrics": {"loss": 0.5}}         "rank_row" where values are a rank's own
///     {"params": {…}}     {"tags": {…}}     {"status": "FINISHED", "time": …}
///     {"artifact": "images/samples/000029.png", "file": "media/…"}        below the run's folder, or an absolute path
///
/// Each line is with the kernel when append() comes back, so that a kill loses none; one that was cut off is left out. One
/// process has it open at a time. Threading: append() any, the rest for one thread.
class Journal {
 public:
  struct Entry {
    Value value;           ///< null for a damaged line
    std::int64_t end = 0;  ///< where the next one begins
  };

  /// `mlflow/journal.jsonl` of a run's folder, `mlflow/journal_rank_1.jsonl` of other ranks.
  static std::filesystem::path file_of(const std::filesystem::path& run_folder, int rank);
  /// Those that are in a run's folder, rank 0's first.
  static std::vector<std::filesystem::path> files_in(const std::filesystem::path& run_folder);

  /// Opens one, or makes it with this header. Throws IoError, such as where another process has it open.
  explicit Journal(std::filesystem::path file, const Value& header = {});

  const std::filesystem::path& file() const { return file_; }
  std::filesystem::path run_folder() const { return file_.parent_path().parent_path(); }
  const Value& header() const { return header_; }
  /// Adds a line. Throws IoError, and what was there stays.
  void append(const Value& entry);
  /// The entries from a place on, as many as fit in a megabyte; none at the end.
  std::vector<Entry> entries(std::int64_t from) const;
  /// Where the first entry begins.
  std::int64_t first() const { return first_; }
  std::int64_t size() const;

  // How far it is delivered.
  std::int64_t sent() const;
  /// How many entries are not.
  std::size_t unsent() const;
  /// The run at the server ("run"), its status there ("status"), files for later ("later"), and where the run goes on.
  Value& state() { return state_; }
  /// Up to here the server may have more than is known to be sent: a request is under way, or was when a process died.
  std::int64_t sending() const;
  /// Writes the state, with all before `sent` being delivered. Throws IoError.
  void save_state(std::int64_t sent);
  /// Writes that what is before `end` may be delivered from now on. Throws IoError.
  void save_sending(std::int64_t end);

  /// The state of a journal that another one may have open; empty where it cannot be read.
  static Value read_state(const std::filesystem::path& file);
  static void write_state(const std::filesystem::path& file, const Value& state);
  /// Gives the journal of another run a name that is free, and gives that. Throws IoError.
  static std::filesystem::path set_aside(const std::filesystem::path& file);

 private:
  std::filesystem::path file_;
  std::optional<OutputFile> output_;
  mutable std::mutex mutex_;
  std::int64_t size_ = 0;
  std::int64_t first_ = 0;  ///< where the entries begin
  Value header_;
  Value state_;
};

}  // namespace levin::mlflow
