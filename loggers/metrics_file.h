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

/// Selects rows of a file: the first `rows` or, if that is unknown, those of steps before end_step.
struct RowFilter {
  std::optional<std::int64_t> end_step = {};
  std::optional<std::int64_t> rows = {};
};

/// A summary of a run's metrics, over all rows of a file.
struct MetricsSummary {
  struct Metric {
    double last = std::numeric_limits<double>::quiet_NaN();
    double min = std::numeric_limits<double>::quiet_NaN();  ///< of the finite values; NaN: there is none
    double max = std::numeric_limits<double>::quiet_NaN();

    void add(double value);
  };
  std::map<std::string, Metric> metrics = {};  ///< without those of single ranks
  std::int64_t epochs = 0;                     ///< with a row
  std::int64_t bytes = 0;                      ///< of the file
};

/// A CSV file of metrics in which every row has as many cells as the header, at any time, and after a kill.
///
/// Rows are appended as whole lines. A reader may see a part of the last line, which remains if the process is killed in that
/// instant: readers ignore a last line without a line end, as CsvReader does.
///
/// A new name becomes a column of the header and of every earlier row: a new file with all rows replaces the old one. Since
/// this takes time in proportion to the file, rows with new names wait in memory while rewriting has taken more than a share of
/// the run, so that the cost of a row does not depend on how often new names come. flush() does not wait.
///
/// Columns are `epoch`, `step` and the metrics; a metric called `step` or `epoch` replaces the row's own.
class MetricsFile {
 public:
  /// Writes nothing before the first flush. Continues an existing file. `rewriting_share`: the share of the time since then
  /// that rewriting for new columns may take between two calls of flush().
  MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps, double rewriting_share = 0.02);

  const std::filesystem::path& path() const { return path_; }

  /// Adds a row. It reaches the file after `flush_every_n_steps` steps, after a second, when many rows wait, or with flush(); a
  /// row with a new name and those after it perhaps later. The destructor, which cannot report a full disk, does not flush.
  /// Throws: IoError; the rows stay in memory.
  void append(const MetricRow& row);
  /// Writes all rows to the file. Throws: IoError, for example if the file was removed; whole rows stay, and a later flush
  /// retries.
  void flush();
  /// Flushes, and rewrites the file with its columns in alphabetical order. Rows may be appended afterwards. Throws: IoError;
  /// the file is unchanged.
  void tidy();
  /// Replaces the content by rows of `history`, another file or this one. Called before the first append().
  void start_from(const std::filesystem::path& history, const RowFilter& filter);
  /// How many rows were taken from a history and appended since this object was made, those that wait included.
  std::int64_t rows() const { return rows_; }
  /// The summary of these rows.
  MetricsSummary summary() const;

 private:
  /// Looks up a name without a copy: this is done for each number of each row.
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Row = std::vector<std::pair<std::size_t, std::string>>;  ///< numbers, in the order of their columns
  struct Column {
    std::size_t place = 0;
    std::optional<MetricsSummary::Metric> values = {};  ///< of rows(); none has one: nullopt

    void add(double value);
  };

  /// When to write rows with names that the file lacks.
  enum class NewColumns { kNow, kWhileCheap };

  Column& column(std::string_view name);
  void write(NewColumns new_columns);
  void append_to_file();
  bool may_rewrite() const;
  /// Replaces the file by one with the rows of `source` that pass the filter, and those that wait. Calls `see` with each.
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
