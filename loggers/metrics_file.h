#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/protocol/boundary.h"

namespace levin {

struct CsvLayout;
struct MetricRow;
class OutputFile;

/// A CSV file of metrics to which rows are appended at a cost that depends neither on the number of rows nor on new names.
///
/// While a run is on, the header line ends in spare room, filled with carriage returns that CSV readers pass over. A new name
/// becomes a column at the end: it is written into that room, and earlier rows simply have fewer cells. (When the room is used
/// up, the file is rewritten once with four times as much.) tidy() makes of it a rectangular file with sorted columns.
/// The file parses at every instant: columns are written before rows that use them, rows are appended whole, and a rewritten
/// file replaces the old one by a rename. (Who reads slowly while rows with a new column are appended may find them longer than
/// the header it has read before.) A process that is killed loses only the rows that were not flushed.
///
/// Columns are `epoch`, `step` and the metrics; a metric called `step` or `epoch` stands in place of the row's own.
class MetricsFile {
 public:
  /// Nothing is touched on the disk before the first flush. A file that exists is continued.
  MetricsFile(std::filesystem::path path, std::int64_t flush_every_n_steps);
  /// Does not flush: a destructor cannot tell of a full disk.
  ~MetricsFile();

  const std::filesystem::path& path() const { return path_; }

  /// Adds a row. It reaches the file with the next flush(), which comes by itself after `flush_every_n_steps` steps, after a
  /// second, or when the buffer is large. Throws: IoError, and the rows stay in the buffer.
  void append(const MetricRow& row);
  /// Writes what append() collected. Throws: IoError; the file then ends after its last whole row, and a later flush tries
  /// again.
  void flush();
  /// Flushes, and rewrites the file as a plain rectangular CSV: no spare room, columns in alphabetical order, empty cells where
  /// a row has no value. Rows may be appended afterwards. Throws: IoError, and the file stays as it was, complete.
  void tidy();
  /// Takes over the rows of `history` (another file, or this one) whose step is below `end_step`, in place of the content.
  /// Called before the first append().
  void start_from(const std::filesystem::path& history, std::int64_t end_step);

 private:
  void open();
  void close();
  void continue_from(const std::filesystem::path& source, std::optional<std::int64_t> end_step);
  std::size_t column(std::string_view name);
  void write_columns();
  void write_rows();
  void rewrite(const std::filesystem::path& source, const CsvLayout& layout, std::optional<std::int64_t> end_step);
  void replace(const std::function<void(OutputFile&)>& write, const CsvLayout& layout);

  std::filesystem::path path_;
  std::int64_t flush_every_n_steps_;
  bool open_ = false;                 ///< the members below describe the file
  std::unique_ptr<OutputFile> file_;  ///< null while there is no file

  std::vector<std::string> columns_;
  std::map<std::string, std::size_t, std::less<>> column_of_;
  std::size_t columns_in_file_ = 0;
  std::int64_t header_end_ = 0;  ///< end of the header's text
  std::int64_t room_end_ = 0;    ///< where its line end stands
  std::int64_t size_ = 0;        ///< end of the last whole row

  std::string pending_rows_;
  std::vector<std::string> cells_;             ///< of the row being made
  std::optional<std::int64_t> flushed_until_;  ///< rows of earlier steps are in the file
  std::chrono::steady_clock::time_point flushed_at_;
};

}  // namespace levin
