#include "levin/data/streamed_table.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "levin/data/dataset.h"

namespace levin::detail {

void StreamedTable::find_groups() {
  for (std::size_t file = 0; file < files_.size(); ++file) {
    Group group{.file = file};
    for (const std::int64_t rows : files_[file].rows_of_groups()) {
      group.rows = rows;
      group.first = rows_;
      if (rows > 0) groups_.push_back(group);
      ++group.number;
      group.first_of_file += rows;
      rows_ += rows;
    }
  }
}

double StreamedTable::bytes_of(std::size_t file, std::int64_t rows) const {
  return static_cast<double>(rows) * static_cast<double>(files_[file].head().columns.size()) * sizeof(double);
}

double StreamedTable::bytes() const {
  double bytes = 0;
  for (std::size_t file = 0; file < files_.size(); ++file) bytes += bytes_of(file, files_[file].rows());
  return bytes;
}

double StreamedTable::bytes_of_largest_group() const {
  double most = 0;
  for (const Group& group : groups_) most = std::max(most, bytes_of(group.file, group.rows));
  return most;
}

std::uint64_t StreamedTable::fingerprint() const {
  DataFingerprint fingerprint;
  for (const ColumnTable& file : files_) {
    std::error_code none;
    // Hosts may have the folder in different places.
    fingerprint.add(file.path().filename().string());
    fingerprint.add(static_cast<std::int64_t>(std::filesystem::file_size(file.path(), none)));
  }
  return fingerprint.value();
}

CsvTable StreamedTable::read(std::size_t group) const {
  const Group& wanted = groups_[group];
  const ColumnTable& file = files_[wanted.file];
  const std::string name = file.path().string();
  CsvTable rows = arranged_as(head(), first_file().path().string(), file.read(wanted.number), name);
  rows.file_starts = {{-wanted.first_of_file, name}};
  return rows;
}

const CsvTable& StreamedTable::head() const { return first_file().head(); }

/// One without rows may not say how long its lists are.
const ColumnTable& StreamedTable::first_file() const { return files_[groups_.empty() ? 0 : groups_.front().file]; }

}  // namespace levin::detail
