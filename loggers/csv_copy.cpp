#include "levin/loggers/csv_copy.h"

#include <algorithm>

#include "levin/loggers/csv_text.h"
#include "levin/loggers/paged_text.h"

namespace levin {

namespace {
constexpr std::size_t kBuffer = 1 << 18;
}  // namespace

void CsvWriter::add(std::string_view line) {
  // The last line is kept back: finish() may have to make it longer.
  if (text_.size() >= kBuffer) write(last_line_);
  last_line_ = text_.size();
  text_ += line;
}

void CsvWriter::finish(std::size_t next) {
  const auto size = static_cast<std::size_t>(written_) + text_.size();
  const std::size_t left = (PagedText::kPage - size % PagedText::kPage) % PagedText::kPage;
  if (left > 0 && left < next) stretch_csv(text_, last_line_, left);
  write(text_.size());
}

void CsvWriter::write(std::size_t bytes) {
  file_.write(std::string_view(text_).substr(0, bytes));
  written_ += static_cast<std::int64_t>(bytes);
  text_.erase(0, bytes);
}

std::string csv_header(const std::vector<std::string>& columns) {
  std::string line;
  for (std::size_t index = 0; index < columns.size(); ++index) {
    if (index > 0) line += ',';
    append_csv_text(line, columns[index]);
  }
  return line += '\n';
}

void copy_csv_rows(const std::filesystem::path& source, CsvWriter& target, const std::vector<std::string>& columns,
                   std::string_view keep_column, const std::function<bool(const std::string& cell)>& keep) {
  CsvReader reader(source);
  std::vector<std::string> header;
  reader.next(header);
  const auto place_of = [&header](std::string_view column) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), column) - header.begin());
  };
  std::vector<std::size_t> places;  // by column: where the source has it
  for (const std::string& column : columns) places.push_back(place_of(column));
  const std::size_t keep_place = place_of(keep_column);

  std::vector<std::string> cells;
  std::string line;
  while (reader.next(cells)) {
    cells.resize(header.size());
    if (!keep(keep_place < cells.size() ? cells[keep_place] : std::string())) continue;
    line.clear();
    for (std::size_t index = 0; index < places.size(); ++index) {
      if (index > 0) line += ',';
      if (places[index] >= cells.size()) continue;
      shrink_csv_number(cells[places[index]]);
      append_csv_text(line, cells[places[index]]);
    }
    target.add(line += '\n');
  }
}

}  // namespace levin
