#include "levin/loggers/metrics_journal.h"

#include <fstream>
#include <string>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {
namespace fs = std::filesystem;

namespace {

std::string first_line(std::int64_t file_size) { return format("rows beside the first bytes,{}", file_size); }

}  // namespace

MetricsJournal::MetricsJournal(const fs::path& file) : path_(path_of(file)) {}

fs::path MetricsJournal::path_of(const fs::path& file) {
  fs::path path = file;
  return path += ".journal";
}

void MetricsJournal::append(std::string_view lines, std::int64_t file_size) {
  if (!output_) {
    std::error_code ignored;
    fs::remove(path_, ignored);  // one of an earlier run, whose rows are in the file
    output_ = OutputFile::make(path_);
    size_ = 0;
  }
  const std::string text = (size_ == 0 ? first_line(file_size) + "\n" : std::string()).append(lines);
  try {
    output_->write_at(size_, text);
  } catch (const IoError&) {
    try {
      output_->resize(size_);
    } catch (const IoError&) {
      // Readers pass over a last line without an end.
    }
    throw;
  }
  size_ += static_cast<std::int64_t>(text.size());
}

void MetricsJournal::remove() {
  output_.reset();
  std::error_code ignored;  // what stays counts no more, since the file has another size
  fs::remove(path_, ignored);
}

void MetricsJournal::rename(const fs::path& file, const fs::path& new_name) {
  std::error_code ignored;
  fs::rename(path_of(file), path_of(new_name), ignored);
}

std::optional<fs::path> MetricsJournal::to_read(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) return std::nullopt;
  std::string line;
  const fs::path path = path_of(file);
  if (!std::getline(std::ifstream(path, std::ios::binary), line)) return std::nullopt;
  return line == first_line(static_cast<std::int64_t>(size)) ? std::optional(path) : std::nullopt;
}

}  // namespace levin
