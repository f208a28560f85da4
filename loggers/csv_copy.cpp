#include "levin/loggers/csv_copy.h"

#include <algorithm>

#include "levin/loggers/csv_text.h"

namespace levin {
namespace {

constexpr std::size_t kBuffer = 1 << 18;

// Bytes of a header line with room for more columns. One page at first, so that a new column is written within one page, which
// a reader sees whole or not at all; four times as much whenever it is used up, so that this happens a few times at most.
std::size_t size_with_room(std::size_t text_size) {
  std::size_t size = 4096;
  while (size < 2 * text_size + 2) size *= 4;
  return size;
}

}  // namespace

std::string csv_header_text(const std::vector<std::string>& columns, std::size_t first) {
  std::string text;
  for (std::size_t index = first; index < columns.size(); ++index) {
    if (index > 0) text += ',';
    append_csv_text(text, columns[index]);
  }
  return text;
}

std::string csv_header_line(const CsvLayout& layout) {
  std::string line = csv_header_text(layout.columns);
  if (layout.room) line.resize(size_with_room(line.size()) - 1, '\r');
  return line + '\n';
}

void append_csv_row(std::string& text, const std::vector<std::string>& cells) {
  for (std::size_t index = 0; index < cells.size(); ++index) {
    if (index > 0) text += ',';
    append_csv_text(text, cells[index]);
  }
  text += '\n';
}

void copy_csv(const std::filesystem::path& source, OutputFile& target, const CsvLayout& layout, std::string_view keep_column,
              const std::function<bool(const std::string& cell)>& keep) {
  CsvReader reader(source);
  std::vector<std::string> header;
  reader.next(header);
  // By column of the target: where the source has it.
  std::vector<std::size_t> places;
  for (const std::string& column : layout.columns) {
    places.push_back(static_cast<std::size_t>(std::find(header.begin(), header.end(), column) - header.begin()));
  }
  const auto keep_place = static_cast<std::size_t>(std::find(header.begin(), header.end(), keep_column) - header.begin());

  std::string text = csv_header_line(layout);
  std::int64_t written = 0;
  const auto write = [&] {
    target.write_at(written, text);
    written += static_cast<std::int64_t>(text.size());
    text.clear();
  };
  std::vector<std::string> cells, row;
  while (reader.next(cells)) {
    if (!keep(keep_place < std::min(cells.size(), header.size()) ? cells[keep_place] : std::string())) continue;
    row.assign(places.size(), "");
    std::size_t used = layout.rectangular ? places.size() : 0;
    for (std::size_t index = 0; index < places.size(); ++index) {
      if (places[index] >= std::min(cells.size(), header.size())) continue;
      row[index].swap(cells[places[index]]);
      used = std::max(used, index + 1);
    }
    row.resize(used);
    append_csv_row(text, row);
    if (text.size() >= kBuffer) write();
  }
  write();
  target.sync();
}

}  // namespace levin
