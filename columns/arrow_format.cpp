#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "levin/columns/arrow/arrow_files.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/machine_memory.h"
#include "levin/core/base/optional_library.h"
#include "levin/core/files/column_file.h"

// Parquet, Arrow and Feather files, for all rooms.
namespace levin {
namespace {

const OptionalLibrary kArrowLibrary({.file = "liblevin_columns.so",
                                     .entry = "levin_arrow_files",
                                     .title = "Parquet files",
                                     .contents = "Parquet, Arrow and Feather",
                                     .build_packages = "pyarrow",
                                     .run_packages = LEVIN_PYARROW,
                                     .installer = "pip install"});

const ArrowFiles& arrow_library() {
  static const ArrowFiles* const files = kArrowLibrary.entry<decltype(levin_arrow_files)>()();
  return *files;
}

/// Gives errors the name of the file, and levin's types.
template <class Step>
auto naming_arrow_file(const std::filesystem::path& path, const Step& step) {
  try {
    return step();
  } catch (const Error&) {
    throw;
  } catch (const std::invalid_argument& error) {
    throw ConfigError(format("{}: {}", path, error.what()));
  } catch (const std::exception& error) {
    throw IoError(format("{}: cannot be read: {}", path, error.what()));
  }
}

class NamedColumnFile final : public ColumnFile {
 public:
  NamedColumnFile(std::filesystem::path path, std::unique_ptr<ColumnFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  const std::vector<ColumnInfo>& columns() const override { return file_->columns(); }
  std::int64_t row_groups() const override { return file_->row_groups(); }
  std::int64_t rows(std::int64_t group) const override { return file_->rows(group); }
  bool reads_groups_alone() const override { return file_->reads_groups_alone(); }
  ColumnData read(std::int64_t group, std::size_t column, const ColumnReading& reading) override {
    return naming_arrow_file(path_, [&] { return file_->read(group, column, reading); });
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<ColumnFile> file_;
};

/// What a file may take, whatever it claims to hold: whole GiB, so that there are few different numbers.
std::int64_t available_memory() {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  std::ifstream meminfo("/proc/meminfo");
  const std::map<std::string, double> memory = machine_memory(meminfo);
  const auto available = memory.find("MemAvailable");
  if (available == memory.end()) return 16 * kGibibyte;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(available->second) / kGibibyte) * kGibibyte;
}

class ArrowFormat final : public ColumnFormat {
 public:
  ArrowFormat() { register_column_format(*this); }
  const std::vector<std::string>& endings() const override { return endings_; }
  void require() const override { arrow_library(); }
  std::unique_ptr<ColumnFile> open(const std::filesystem::path& file) const override {
    std::error_code error;
    const auto type = std::filesystem::status(file, error).type();
    if (error) throw IoError(format("{}: cannot be read: {}", file, error.message()));
    // A pipe without a writer would be waited for.
    if (type != std::filesystem::file_type::regular) throw IoError(format("{}: cannot be read: it is no file", file));
    return naming_arrow_file(
        file, [&] { return std::make_unique<NamedColumnFile>(file, arrow_library().open(file.string(), available_memory())); });
  }
  std::string parquet_of(const std::vector<ColumnToWrite>& columns) const override {
    return arrow_library().parquet_of(columns);
  }

 private:
  std::vector<std::string> endings_ = {".parquet", ".pq", ".parquet.gzip", ".parquet.snappy", ".feather", ".arrow", ".ipc"};
};

const ArrowFormat kArrowFormat;

}  // namespace
}  // namespace levin
