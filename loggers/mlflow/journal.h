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

/// What a rank has logged for an MLflow server, and how much of it the server has: a file to which lines of JSON are appended,
/// and the state of its upload in a second file. A line is one of
///
///     {"uri": …, "key": …, "experiment": …, …}                            the first: which server, which run
///     {"row": 3, "step": 29, "time": …, "metrics": {"loss": 0.5}}         "rank_row" where values are a rank's own
///     {"params": {…}}     {"tags": {…}}     {"status": "FINISHED", "time": …}
///     {"artifact": "images/samples/000029.png", "file": "media/…"}        below the run's folder, or an absolute path
///
/// The kernel has a line when append() returns, so a kill loses none; a line that was cut off is ignored. One process opens
/// it at a time. Threading: append() any, the rest for one thread.
class Journal {
 public:
  struct Entry {
    Value value;           ///< null: the line is damaged
    std::int64_t end = 0;  ///< offset of the next entry
  };

  /// `mlflow/journal.jsonl` of a run's folder, `mlflow/journal_rank_1.jsonl` of other ranks.
  static std::filesystem::path file_of(const std::filesystem::path& run_folder, int rank);
  /// The journals in a run's folder, rank 0's first.
  static std::vector<std::filesystem::path> files_in(const std::filesystem::path& run_folder);

  /// Opens a journal, or creates it with this header. Throws IoError, for example if another process has it open.
  explicit Journal(std::filesystem::path file, const Value& header = {});

  const std::filesystem::path& file() const { return file_; }
  std::filesystem::path run_folder() const { return file_.parent_path().parent_path(); }
  const Value& header() const { return header_; }
  /// Adds a line. Throws IoError; earlier lines are unchanged.
  void append(const Value& entry);
  /// The entries from an offset on, as many as fit in a megabyte; none at the end.
  std::vector<Entry> entries(std::int64_t from) const;
  /// Offset of the first entry.
  std::int64_t first() const { return first_; }
  std::int64_t size() const;

  /// The server has all entries before this offset.
  std::int64_t sent() const;
  /// How many entries it does not have.
  std::size_t unsent() const;
  /// The server's run ("run") and its status there ("status"), files to retry ("later"), and the folder of the run that resumed
  /// this one ("continued_in").
  Value& state() { return state_; }
  /// The server may have entries before this offset, which is sent() or greater: a request is under way, or was when the
  /// process died.
  std::int64_t sending() const;
  /// Writes the state: the server has all before `sent`. Throws IoError.
  void save_state(std::int64_t sent);
  /// Writes that the server may have all before `end` from now on. Throws IoError.
  void save_sending(std::int64_t end);

  /// The state of a journal, which may be open elsewhere; empty if it cannot be read.
  static Value read_state(const std::filesystem::path& file);
  static void write_state(const std::filesystem::path& file, const Value& state);
  /// Renames the journal of another run to a free name, and returns that. Throws IoError.
  static std::filesystem::path move_to_backup(const std::filesystem::path& file);

 private:
  std::filesystem::path file_;
  std::optional<OutputFile> output_;
  mutable std::mutex mutex_;
  std::int64_t size_ = 0;
  std::int64_t first_ = 0;
  Value header_;
  Value state_;
};

}  // namespace levin::mlflow
