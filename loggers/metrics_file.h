#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
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

/// Which rows of a file are taken over: the first so many or, when that is not known, those of steps before one.
struct RowFilter {
  std::optional<std::int64_t> end_step = {};
  std::optional<std::int64_t> rows = {};
};

/// What the metrics of a run came to, over all rows of a file.
struct MetricsSummary {
  struct Metric {
    double last = std::numeric_limits<double>::quiet_NaN();
    double min = std::numeric_limits<double>::quiet_NaN();  ///< of the finite values; NaN: there is none
    double max = std::numeric_limits<double>::quiet_NaN();

    void add(double value);
  };
  std::map<std::string, Metric> metrics = {};  ///< without what is one rank's own
  std::int64_t epochs = 0;                     ///< with a row
  std::int64_t bytes = 0;                      ///< of the file
};

/// A CSV file of metrics in which every row has as many cells as the header, at every moment, and after the process was killed.
///
/// Rows are appended as whole lines. A reader that comes while a line is written sees a part of it, and so it remains when the
/// process is killed at that instant: readers pass over a last line without a line end, as CsvReader does.
///
/// A new name becomes a column of the header and of every earlier row. For that a new file with all rows takes the old one's
/// name. Since this costs what the file is long, rows with new names wait in memory while rewriting has taken more than a share
/// of the run: a row costs the same however often new names come. flush() does not wait.
///
/// Columns are `epoch`, `step` and the metrics; a metric called `step` or `epoch` replaces the row's own.
class MetricsFile {
 public:
  /// Nothing is touched on the disk before the first flush. A file that exists is continued. `rewriting_share`: how much of the
  /// time since then rewriting for new columns may take between two calls of flush().
  MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps, double rewriting_share = 0.02);

  const std::filesystem::path& path() const { return path_; }

  /// Adds a row. It reaches the file after `flush_every_n_steps` steps, after a second, when many rows wait, or with flush(); a
  /// row with a new name, and those behind it, perhaps later. A destructor, which cannot report a full disk, does not flush.
  /// Throws: IoError, and the rows stay in memory.
  void append(const MetricRow& row);
  /// Brings all rows to the file. Throws: IoError, such as when the file is gone; whole rows stay, and a later flush tries
  /// again.
  void flush();
  /// Flushes, and rewrites the file with its columns in alphabetical order. Rows may be appended afterwards. Throws: IoError,
  /// and the file stays as it was.
  void tidy();
  /// Replaces the content by rows of `history`, another file or this one. Called before the first append().
  void start_from(const std::filesystem::path& history, const RowFilter& filter);
  /// Rows taken over and appended since this object was made, those that wait included.
  std::int64_t rows() const { return rows_; }
  /// What these rows came to.
  MetricsSummary summary() const;

 private:
  /// Looks a name up without a text of its own: this is done for each number of each row.
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Row = std::vector<std::pair<std::size_t, std::string>>;  ///< numbers, in the order of their columns
  struct Column {
    std::size_t place = 0;
    std::optional<MetricsSummary::Metric> values = {};  ///< of rows(); none has one: nullopt

    void add(double value);
  };

  /// When a row is written that has a name which the file lacks.
  enum class NewColumns { kNow, kWhileCheap };

  Column& column(std::string_view name);
  void write(NewColumns new_columns);
  void append_to_file();
  bool may_rewrite() const;
  /// Replaces the file by one with those rows of `source` that the filter keeps, and with those that wait. `see` is given each
  /// of them.
  void rewrite(const std::filesystem::path& source, const RowFilter& filter, AtomicFile::Disk disk,
               const std::function<void(const Row&)>& see = {});

  std::filesystem::path path_;
  std::int64_t flush_every_n_steps_;
  double rewriting_share_;

  std::vector<std::string> columns_;
  std::unordered_map<std::string, Column, TextHash, std::equal_to<>> column_of_;
  std::optional<OutputFile> file_;   ///< none before the first flush
  std::size_t columns_in_file_ = 0;  ///< the first of columns_
  std::int64_t rows_in_file_ = 0;
  std::vector<Row> waiting_;  ///< rows that are not in the file
  std::int64_t rows_ = 0;
  std::int64_t rows_at_write_ = 0;  ///< when they were last written, or left to wait

  std::optional<std::int64_t> flushed_until_;  ///< rows of earlier steps are on the disk
  std::chrono::steady_clock::time_point made_at_;
  std::chrono::steady_clock::time_point flushed_at_;
  std::chrono::duration<double> spent_rewriting_{0};
  std::chrono::duration<double> last_rewriting_{0};
};

}  // namespace levin
