#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "levin/cli/runs/run_record.h"

struct sqlite3;

namespace levin::cli {

/// What is known of the runs below a folder, in its file `runs.sqlite`: so that a thousand runs are listed without reading a
/// thousand metrics.csv. It holds nothing that the folders of the runs do not hold, and is made anew where it is missing,
/// damaged, or of another version. Its tables `runs` and `metrics` are there for other programs too.
///
/// Where the file cannot be written, as in a folder of somebody else's, nothing is kept and every look-up finds nothing. Two
/// programs may use it at the same time.
class RunIndex {
 public:
  explicit RunIndex(const std::filesystem::path& folder);
  ~RunIndex();
  RunIndex(const RunIndex&) = delete;
  RunIndex& operator=(const RunIndex&) = delete;

  /// The run in that folder, if its files are as they were when it was put in.
  std::optional<RunRecord> find(const std::filesystem::path& run);
  /// Puts in a run, in place of what was known of it. One that is still on is not kept: it changes without its files.
  void put(const RunRecord& run);
  /// Takes out runs whose folders are gone.
  void forget_missing();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };

  void open();
  std::string key_of(const std::filesystem::path& run) const;

  std::filesystem::path folder_;
  std::unique_ptr<sqlite3, Close> database_;  ///< null: nothing is kept
};

/// The files of a run that a record comes from, with their sizes and times: equal texts, equal records.
std::string stamp_of(const std::filesystem::path& run);

}  // namespace levin::cli
