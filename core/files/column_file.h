#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// Files that hold columns, each of one type, in groups of rows: Parquet, Arrow, Feather. What reads and writes them registers
// itself here, so that a room can read such files without seeing it.
namespace levin {

enum class ColumnKind : std::uint8_t {
  kNumber,      ///< truth values, integers, floats, decimals, dates and times, and texts that are asked for as such
  kText,        ///< texts, also as a dictionary
  kUnsupported  ///< structs, bytes, lists of texts, …
};

/// A column, as the file describes it.
struct ColumnInfo {
  std::string name = {};
  std::string type = {};  ///< in the format's words: "int64", "list<element: double>"
  ColumnKind kind = ColumnKind::kNumber;
  bool is_list = false;   ///< a row holds a list, or lists of lists, whose lengths only the rows say
  bool is_index = false;  ///< the names of the rows, as pandas writes them
};

/// How a column is to be read.
struct ColumnReading {
  bool as_text = false;  ///< each value as a text: numbers too, but not lists
  /// Dates and times become the seconds since 1970, or the days; times of a day and durations the seconds that they have, or
  /// days.
  bool times_in_days = false;
};

/// The values of a column in one group of rows.
struct ColumnData {
  /// Row by row. NaN where one is missing. Of texts: their indices in `texts`.
  std::vector<double> numbers = {};
  std::vector<std::int64_t> missing = {};  ///< where in `numbers`, in order
  std::vector<std::string> texts = {};     ///< each once, in no order
  /// Of one row's numbers: {} for one number, {3} for lists of three. Unset where a column of lists has no list, as in a group
  /// without rows; `numbers` is empty then.
  std::optional<std::vector<std::int64_t>> shape = std::vector<std::int64_t>();
};

/// An open file. Its functions throw IoError on a damaged file, and ConfigError where what it holds is not fit for numbers,
/// both with the file's name. Threading: one call at a time.
class ColumnFile {
 public:
  ColumnFile() = default;
  virtual ~ColumnFile() = default;
  ColumnFile(const ColumnFile&) = delete;
  ColumnFile& operator=(const ColumnFile&) = delete;

  /// Names may repeat.
  virtual const std::vector<ColumnInfo>& columns() const = 0;
  /// Groups are read as a whole.
  virtual std::int64_t row_groups() const = 0;
  virtual std::int64_t rows(std::int64_t group) const = 0;
  /// Whether opening it and reading a group leaves the other groups alone. Default: they are read with it.
  virtual bool reads_groups_alone() const { return false; }
  virtual ColumnData read(std::int64_t group, std::size_t column, const ColumnReading& reading) = 0;
};

/// A column to write.
struct ColumnToWrite {
  std::string name;
  std::variant<std::vector<double>, std::vector<float>, std::vector<std::int64_t>, std::vector<std::optional<std::string>>>
      values;
};

/// What reads and writes such files.
class ColumnFormat {
 public:
  ColumnFormat() = default;
  virtual ~ColumnFormat() = default;
  ColumnFormat(const ColumnFormat&) = delete;
  ColumnFormat& operator=(const ColumnFormat&) = delete;

  /// How names of its files end, in lower case: ".parquet".
  virtual const std::vector<std::string>& endings() const = 0;
  /// Loads the library that it needs. Throws ConfigError where that is missing, with what to install; so do the others.
  virtual void require() const = 0;
  /// Throws IoError on a damaged file.
  virtual std::unique_ptr<ColumnFile> open(const std::filesystem::path& file) const = 0;
  /// The bytes of a Parquet file of these columns, which are equally long.
  virtual std::string parquet_of(const std::vector<ColumnToWrite>& columns) const = 0;
};

/// Make it a static object. Threading: before main(), or while a library is loaded.
void register_column_format(const ColumnFormat& format);
/// The format of a file with this name; nullptr for none.
const ColumnFormat* column_format_of(const std::filesystem::path& file);
/// How names of files with columns end: ".parquet", ".feather", ….
std::vector<std::string> column_file_endings();

}  // namespace levin
