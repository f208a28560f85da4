#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "levin/core/files/atomic_file.h"
#include "levin/loggers/metrics_journal.h"
#include "levin/loggers/sparse_rows.h"

namespace levin {

struct MetricRow;

/// How much of a run may be spent on rewriting its file for new columns.
struct RewriteBudget {
  double share = 0.02;                            ///< of the time since the file was opened
  std::chrono::duration<double> allowance{0.01};  ///< and this much more
};

/// Which rows of a file are taken over: the first so many or, when that is not known, those of steps before one.
struct RowFilter {
  std::optional<std::int64_t> end_step = {};
  std::optional<std::int64_t> rows = {};
};

/// A CSV file of metrics that any reader reads right at every instant, while rows are appended and after the process was
/// killed: each row has as many cells as the header, and the file ends with a whole row.
///
/// Rows are appended, laid out so that no reader meets half of one (PagedText). A new name becomes a column at the end, in the
/// header and in every earlier row: a new file with all rows takes the old one's place. Since that costs what the file is long,
/// it happens while rewriting has taken no more than a share of the run (RewriteBudget); besides, in small files, when as many
/// rows wait as there are, and when those that wait take much memory. Until then rows wait in memory, and in a journal beside
/// the file (MetricsJournal), which is read when the file is continued. So a row costs the same however often new names come,
/// and short files show them at once.
///
/// Columns are `epoch`, `step` and the metrics; a metric called `step` or `epoch` stands in place of the row's own.
class MetricsFile {
 public:
  /// Nothing is touched on the disk before the first flush. A file that exists is continued.
  MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps, RewriteBudget budget = {});
  /// Does not flush: a destructor cannot tell of a full disk.
  ~MetricsFile();

  const std::filesystem::path& path() const { return path_; }

  /// Adds a row. It reaches the disk with the next flush(), which comes by itself after `flush_every_n_steps` steps, after a
  /// second, or when many rows wait. Throws: IoError, and the rows stay in memory.
  void append(const MetricRow& row);
  /// Writes what append() collected to the file, or to its journal. Throws: IoError, such as when the file is gone; whole rows
  /// stay, and a later flush tries again.
  void flush();
  /// Flushes, and rewrites the file with its columns in alphabetical order and numbers at their shortest; there is no journal
  /// then. Rows may be appended afterwards. Throws: IoError, and the file stays as it was.
  void tidy();
  /// Takes over rows of `history` (another file, or this one) in place of the content. Called before the first append().
  void start_from(const std::filesystem::path& history, const RowFilter& filter);
  /// Rows that the file has, those that wait included: taken over and appended since this object was made.
  std::int64_t rows() const { return rows_; }

 private:
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  void open();
  void close();
  void stay_in_place();
  void continue_from(const std::filesystem::path& source, const RowFilter& filter);
  /// `kept`: rows that come before those of the journal.
  void take_journal(const std::filesystem::path& source, const RowFilter& filter, std::int64_t kept);
  std::size_t column(std::string_view name);
  bool append_to_file();
  void append_to_journal();
  bool may_rewrite() const;
  void rewrite_for_columns();
  void rewrite(const std::optional<std::filesystem::path>& source, const std::vector<std::string>& columns,
               const RowFilter& filter, const SparseRows& more, AtomicFile::Disk disk);
  std::optional<std::filesystem::path> present_file() const { return file_ ? std::optional(path_) : std::nullopt; }

  std::filesystem::path path_;
  std::int64_t flush_every_n_steps_;
  RewriteBudget budget_;
  bool open_ = false;               ///< the members below describe the file
  std::optional<OutputFile> file_;  ///< none while there is no file

  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>> column_of_;
  std::size_t columns_in_file_ = 0;
  std::int64_t size_ = 0;  ///< of the file
  std::size_t rows_in_file_ = 0;
  std::int64_t rows_ = 0;
  std::size_t widest_row_ = 0;  ///< bytes that a row like those so far may have

  SparseRows waiting_;          ///< rows that are not in the file
  std::size_t in_journal_ = 0;  ///< the first of them, which are in the journal
  MetricsJournal journal_;
  std::optional<std::int64_t> flushed_until_;  ///< rows of earlier steps are on the disk
  std::chrono::steady_clock::time_point flushed_at_;
  std::chrono::steady_clock::time_point made_at_;
  std::chrono::duration<double> spent_rewriting_{0};
};

}  // namespace levin
