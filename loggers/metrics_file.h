#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "levin/core/files/atomic_file.h"

namespace levin {

struct MetricRow;

/// Appends the shortest text that reads back to the same bits, and that readers which guess a column's type from its first rows
/// take for a float: "1.0", not "1"; "NaN", "inf" and "-inf", which pandas, polars, R and Python's float() all know.
void append_csv_number(std::string& line, double value);
void append_csv_number(std::string& line, std::int64_t value);

/// Reads a CSV file record by record, in constant memory. Knows quoted cells and every kind of line end, and passes over empty
/// lines. A last record without a line end is not given: whoever wrote it was stopped in the middle.
class CsvReader {
 public:
  /// Throws: IoError when the file cannot be opened.
  explicit CsvReader(const std::filesystem::path& file);

  /// Reads the next record into `cells`; false at the end. Throws: IoError when reading fails.
  bool next(std::vector<std::string>& cells);

 private:
  std::filesystem::path file_;
  std::ifstream stream_;
};

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

/// What the rows of a file came to.
struct MetricsSummary {
  /// All are finite, but for `last`, which is NaN where the newest value is not.
  struct Metric {
    double last = 0;
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();
  };
  std::map<std::string, Metric> metrics;  ///< those with a finite value, without what is one rank's own
  std::int64_t epochs = 0;                ///< with a row
  std::int64_t bytes = 0;                 ///< of the file
};

/// A CSV file of metrics that any reader reads right at every instant, while rows are appended and after the process was
/// killed: each row has as many cells as the header, and the file ends with a whole row.
///
/// Rows are appended such that none lies across two pages of the file (PagedText in the source). What cannot be appended, such
/// as a new name, which becomes a column of the header and of every earlier row, needs a new file with all rows in the old
/// one's place. Since that costs what the file is long, it happens while rewriting has taken no more than a share of the run
/// (RewriteBudget), and in small files, when as many rows wait as there are. Until then rows wait in a journal beside the file,
/// which is read when the file is rewritten or continued. So a row costs the same however often new names come, and short files
/// show them at once.
///
/// Columns are `epoch`, `step` and the metrics; a metric called `step` or `epoch` stands in place of the row's own.
class MetricsFile {
 public:
  /// Nothing is touched on the disk before the first flush. A file that exists is continued.
  MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps, RewriteBudget budget = {});

  const std::filesystem::path& path() const { return path_; }

  /// Adds a row. It reaches the disk with the next flush(), which comes by itself after `flush_every_n_steps` steps, after a
  /// second, or when many rows wait; a destructor, which cannot tell of a full disk, does not flush. Throws: IoError, and the
  /// rows stay in memory.
  void append(const MetricRow& row);
  /// Writes what append() collected to the file, or to its journal. Throws: IoError, such as when the file is gone; whole rows
  /// stay, and a later flush tries again.
  void flush();
  /// Flushes, and rewrites the file with its columns in alphabetical order and numbers at their shortest; there is no journal
  /// then. Rows may be appended afterwards. Throws: IoError, and the file stays as it was.
  MetricsSummary tidy();
  /// Takes over rows of `history` (another file, or this one) in place of the content. Called before the first append().
  void start_from(const std::filesystem::path& history, const RowFilter& filter);
  /// Rows that the file has, those that wait included: taken over and appended since this object was made.
  std::int64_t rows() const { return rows_; }

  /// Where rows of a file wait. A line of it is a row: name, number, name, number, …. The first line has the size of the file
  /// that the rows belong to: they are in a file of another size already, whose process was killed before it removed the
  /// journal.
  static std::filesystem::path journal_of(const std::filesystem::path& file);

 private:
  /// Looks a name up without a text of its own: this is done for each number of each row.
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Row = std::vector<std::pair<std::size_t, std::string>>;  ///< numbers, in the order of their columns

  std::size_t column(std::string_view name);
  bool append_to_file();
  void append_to_journal();
  bool may_rewrite() const;
  /// `see`: is given each row that the file has then.
  void rewrite(const std::filesystem::path& source, const RowFilter& filter, AtomicFile::Disk disk,
               const std::function<void(const Row&)>& see = {});
  std::vector<Row> journal_rows(const std::filesystem::path& file);

  std::filesystem::path path_;
  std::int64_t flush_every_n_steps_;
  RewriteBudget budget_;

  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> column_of_;
  std::optional<OutputFile> file_;   ///< none before the first flush
  std::size_t columns_in_file_ = 0;  ///< the first of columns_
  std::int64_t size_ = 0;            ///< of the file
  std::int64_t rows_in_file_ = 0;
  std::optional<OutputFile> journal_;  ///< when rows of this object are in it
  std::int64_t journal_size_ = 0;
  std::int64_t rows_in_journal_ = 0;
  std::vector<Row> waiting_;  ///< rows that are neither in the file nor in its journal
  std::int64_t rows_ = 0;

  std::optional<std::int64_t> flushed_until_;  ///< rows of earlier steps are on the disk
  std::chrono::steady_clock::time_point made_at_;
  std::chrono::steady_clock::time_point flushed_at_;
  std::chrono::duration<double> spent_rewriting_{0};
  std::chrono::duration<double> last_rewriting_{0};
};

}  // namespace levin
