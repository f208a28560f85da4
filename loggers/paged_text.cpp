#include "levin/loggers/paged_text.h"

#include <charconv>
#include <vector>

namespace levin {
namespace {

bool is_number(std::string_view cell) {
  double ignored = 0;
  const char* const end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, ignored);
  return error == std::errc() && stop == end;
}

// Where a cell's decimal fraction ends; npos when the cell is no number with one.
std::size_t fraction_end(std::string_view cell) {
  const std::size_t point = cell.find('.');
  if (point == std::string_view::npos || point + 1 == cell.size() || !is_number(cell)) return std::string_view::npos;
  const std::size_t end = cell.find_first_not_of("0123456789", point + 1);
  return end == std::string_view::npos ? cell.size() : end;
}

}  // namespace

bool PagedText::add(std::string_view row) {
  if (row.size() > kPage) return false;
  const std::size_t left = left_in_page();
  if (left > 0 && row.size() > left && !stretch(left)) return false;
  if (left_in_page() == 0) page_begin_ = text_.size();
  text_ += row;
  return true;
}

void PagedText::finish(std::size_t next) {
  const std::size_t left = left_in_page();
  if (left > 0 && left < next) stretch(left);
}

bool PagedText::stretch(std::size_t bytes) { return stretch_csv(text_, page_begin_, bytes); }

bool stretch_csv(std::string& text, std::size_t from, std::size_t bytes) {
  if (text.find('"', from) != std::string::npos) return false;  // what is in quotes is nobody's number
  std::vector<std::size_t> places;
  for (std::size_t begin = from; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(",\n", begin), text.size());
    const std::size_t place = fraction_end(std::string_view(text).substr(begin, end - begin));
    if (place != std::string_view::npos) places.push_back(begin + place);
    begin = end + 1;
  }
  if (places.empty()) return false;
  std::string stretched;
  std::size_t done = from;
  for (std::size_t index = 0; index < places.size(); ++index) {
    stretched.append(text, done, places[index] - done);
    stretched.append(bytes / places.size() + (index < bytes % places.size() ? 1 : 0), '0');
    done = places[index];
  }
  stretched.append(text, done);
  text.replace(from, std::string::npos, stretched);
  return true;
}

void shrink_csv_number(std::string& cell) {
  const std::size_t end = fraction_end(cell);
  if (end == std::string_view::npos) return;
  std::size_t keep = end;
  while (cell[keep - 1] == '0' && cell[keep - 2] != '.') --keep;
  cell.erase(keep, end - keep);
}

}  // namespace levin
