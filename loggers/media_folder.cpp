#include "levin/loggers/media_folder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/csv_text.h"
#include "levin/core/files/written_files.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// A part of a name, between its slashes, as a folder: one that any file system takes, and that stays where it is.
std::string folder_name(std::string part) {
  constexpr std::size_t kLongest = 200;
  constexpr std::string_view kNever = "\\:*?\"<>|";
  for (char& one : part) {
    const bool is_control = static_cast<unsigned char>(one) < 0x20 || one == 0x7f;
    if (is_control || kNever.find(one) != std::string_view::npos) one = '_';
  }
  if (part.empty() || part.find_first_not_of('.') == std::string::npos) part.assign(std::max<std::size_t>(1, part.size()), '_');
  if (part.size() > kLongest) part.resize(kLongest);
  return part;
}

void add_line(std::string& text, std::string line) { text += std::move(line) + "\n"; }

std::string text_of(const LoggedHistogram& histogram) {
  std::string text = "up_to,count\n";
  for (std::size_t bucket = 0; bucket < histogram.limits.size(); ++bucket) {
    std::string line;
    append_csv_number(line, histogram.limits[bucket]);
    line += ',';
    append_csv_number(line, histogram.counts[bucket]);
    add_line(text, std::move(line));
  }
  if (histogram.nans > 0) add_line(text, format("nan,{}", histogram.nans));
  if (histogram.infinities > 0) add_line(text, format("inf or -inf,{}", histogram.infinities));
  return text;
}

void append_cell(std::string& line, const Value& cell) {
  if (cell.is_int()) return append_csv_number(line, cell.as_int());
  if (cell.is_double()) return append_csv_number(line, cell.as_double());
  if (cell.is_string()) return append_csv_text(line, cell.as_string());
  if (cell.is_bool()) line += cell.as_bool() ? "true" : "false";
}

std::string text_of(const Table& table) {
  std::string text;
  for (const std::string& column : table.columns) {
    if (&column != table.columns.data()) text += ',';
    append_csv_text(text, column);
  }
  text += '\n';
  for (const std::vector<Value>& row : table.rows) {
    for (const Value& cell : row) {
      if (&cell != row.data()) text += ',';
      append_cell(text, cell);
    }
    text += '\n';
  }
  return text;
}

/// A copy that takes its name when it is whole.
void copy_media_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  const fs::path temporary = temporary_in(to.parent_path());
  if (!error) fs::copy_file(from, temporary, error);
  if (!error) fs::rename(temporary, to, error);
  if (!error) return note_written(to);
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw IoError(format("cannot copy {} to {}: {}", from, to, error.message()));
}

}  // namespace

std::string table_json(const Table& table) {
  Value::List columns(table.columns.begin(), table.columns.end());
  Value::List rows(table.rows.begin(), table.rows.end());
  return plain_json(Value::Map{{"columns", std::move(columns)}, {"data", std::move(rows)}});
}

fs::path MediaFolder::path_of(const LoggedItem& item, const std::string& end) {
  fs::path folder = run_ / "media" / format("{}s", kind_name(item.kind()));
  for (std::string& part : split(item.name, "/")) folder /= folder_name(std::move(part));
  Newest& newest = newest_[folder];
  newest.items = newest.step == item.step ? newest.items + 1 : 1;
  newest.step = item.step;
  const std::string rank = item.rank == 0 ? "" : format("_rank{}", item.rank);
  const std::string again = newest.items == 1 ? "" : format("_{}", newest.items);
  return folder / format("{:06d}{}{}{}", item.step, rank, again, end);
}

fs::path MediaFolder::write(const LoggedItem& item, const std::string& end, std::string_view content) {
  fs::path path = path_of(item, end);
  AtomicFile file(path);
  file.write(content);
  file.commit(AtomicFile::Disk::kLeaveToKernel);
  return path;
}

fs::path MediaFolder::write(const LoggedItem& item) {
  const auto written = [&](const std::string& end, std::string_view content) { return write(item, end, content); };
  if (const auto* image = std::get_if<LoggedImage>(&item.content)) return written(".png", image->png);
  if (const auto* figure = std::get_if<LoggedFigure>(&item.content)) return written(".png", figure->image.png);
  if (const auto* histogram = std::get_if<LoggedHistogram>(&item.content)) return written(".csv", text_of(*histogram));
  if (const auto* text = std::get_if<LoggedText>(&item.content)) return written(".txt", text->text);
  if (const auto* table = std::get_if<Table>(&item.content)) return written(".csv", text_of(*table));
  const fs::path& from = std::get<LoggedFile>(item.content).path;
  fs::path path = path_of(item, "_" + folder_name(from.filename().string()));
  copy_media_file(from, path);
  return path;
}

}  // namespace levin
