#include "levin/core/files/csv_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// 10^0 to 10^22, which a double holds exactly.
constexpr std::array<double, 23> kPowers = [] {
  std::array<double, 23> powers{};
  double power = 1;
  for (double& one : powers) {
    one = power;
    power *= 10;
  }
  return powers;
}();

/// "0.25", "-17", as nearly all numbers are: three times as fast as from_chars(), since rounding need not be exact. Null for
/// other forms.
const char* parse_plain(const char* begin, const char* end, double& number) {
  constexpr std::size_t kMostDigits = 19;  // of an integer of 64 bits
  const char* at = begin;
  const bool is_negative = at != end && *at == '-';
  if (is_negative) ++at;
  const char* const first = at;
  std::uint64_t digits = 0;
  for (; at != end && is_digit(*at); ++at) digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
  auto count = static_cast<std::size_t>(at - first);
  std::size_t decimals = 0;
  if (at != end && *at == '.') {
    const char* const point = at++;
    for (; at != end && is_digit(*at); ++at) digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    decimals = static_cast<std::size_t>(at - point) - 1;
    count += decimals;
  }
  if (count == 0 || count > kMostDigits || (at != end && *at != ',')) return nullptr;
  const double value = static_cast<double>(digits) / kPowers[decimals];
  number = is_negative ? -value : value;
  return at;
}

}  // namespace

const char* parse_number(const char* begin, const char* end, double& number) {
  if (const char* const after = parse_plain(begin, end, number)) return after;
  const auto [after, error] = std::from_chars(begin, end, number);
  return error == std::errc() && (after == end || *after == ',') ? after : nullptr;
}

const char* end_of_cell(const char* begin, const char* end) {
  bool quoted = false;
  return std::find_if(begin, end, [&](char c) {
    if (c == '"') quoted = !quoted;
    return c == ',' && !quoted;
  });
}

CsvReader::CsvReader(const std::filesystem::path& file, Links links) : file_(file), descriptor_(open_plain_file(file, links)) {
  if (!descriptor_.is_open()) throw IoError(format("cannot read {}: {}", file_, why_not_opened(errno)));
}

bool CsvReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() >= kLongestLine)
      throw IoError(format("cannot read {}: a line is longer than {} bytes", file_, kLongestLine));
    buffer_.resize(std::max(kBuffer, 2 * buffer_.size()));
  }
  ssize_t count = 0;
  do {
    count = read(descriptor_.number(), buffer_.data() + end_, buffer_.size() - end_);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw IoError(format("cannot read {}: {}", file_, std::strerror(errno)));
  end_ += static_cast<std::size_t>(count);
  if (line_end_ == 0) {
    const std::string_view first(buffer_.data(), end_);
    line_end_ = first.find('\n') == std::string_view::npos && first.find('\r') != std::string_view::npos ? '\r' : '\n';
  }
  return count > 0;
}

std::optional<std::string_view> CsvReader::next_raw_line() {
  std::size_t searched = begin_;
  while (true) {
    const void* const found = end_ > searched ? std::memchr(buffer_.data() + searched, line_end_, end_ - searched) : nullptr;
    if (found == nullptr) {
      searched = end_ - begin_;
      if (!fill()) return std::nullopt;
      continue;
    }
    const auto line_end = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
    const std::string_view line(buffer_.data() + begin_, line_end - begin_);
    begin_ = line_end + 1;
    return line;
  }
}

std::optional<std::string_view> CsvReader::next_line() {
  while (std::optional<std::string_view> line = next_raw_line()) {
    while (line->ends_with('\r')) line->remove_suffix(1);
    if (!line->empty()) return line;
  }
  return std::nullopt;
}

bool CsvReader::next(std::vector<std::string>& cells) {
  std::optional<std::string_view> line = next_line();
  if (!line) {
    cells.clear();
    return false;
  }
  // Cells are used again, and with them their memory.
  std::size_t count = 0;
  const auto add_cell = [&] {
    if (count == cells.size()) cells.emplace_back();
    cells[count].clear();
    return &cells[count++];
  };
  std::string* cell = add_cell();
  bool quoted = false;
  bool after_quotes = false;
  while (true) {
    for (const char c : *line) {
      if (c == '"') {
        // Two quotes within quotes stand for one: the first seems to end the cell, the second continues it.
        if (after_quotes) *cell += '"';
        after_quotes = quoted;
        quoted = !quoted;
        continue;
      }
      after_quotes = false;
      if (c == ',' && !quoted) {
        cell = add_cell();
      } else if (quoted || c != '\r') {  // of a line end behind quotes
        *cell += c;
      }
    }
    if (!quoted) break;
    // next_line() has taken line ends off, which belong to the cell.
    const char* const next_line = buffer_.data() + begin_;
    cell->append(line->data() + line->size(), next_line);
    line = next_raw_line();
    if (!line) {
      cells.clear();
      return false;
    }
  }
  cells.resize(count);
  return true;
}

}  // namespace levin
