#include "levin/cli/report/csv_lines.h"

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
#include "levin/core/files/file_bytes.h"

namespace levin::cli {
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

CsvLines::CsvLines(const std::filesystem::path& file, Links links) : file_(file), descriptor_(open_plain_file(file, links)) {
  if (!descriptor_.is_open()) throw IoError(format("cannot read {}: {}", file_, why_not_opened(errno)));
  buffer_.resize(kBuffer);
}

bool CsvLines::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() >= kLongestLine)
      throw IoError(format("cannot read {}: a line is longer than {} bytes", file_, kLongestLine));
    buffer_.resize(2 * buffer_.size());
  }
  ssize_t count = 0;
  do {
    count = read(descriptor_.number(), buffer_.data() + end_, buffer_.size() - end_);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw IoError(format("cannot read {}: {}", file_, std::strerror(errno)));
  end_ += static_cast<std::size_t>(count);
  return count > 0;
}

std::optional<std::string_view> CsvLines::next() {
  std::size_t searched = begin_;
  while (true) {
    const void* const found = end_ > searched ? std::memchr(buffer_.data() + searched, '\n', end_ - searched) : nullptr;
    if (found == nullptr) {
      searched = end_ - begin_;
      if (!fill()) return std::nullopt;
      continue;
    }
    const auto line_end = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
    std::string_view line(buffer_.data() + begin_, line_end - begin_);
    begin_ = line_end + 1;
    searched = begin_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) return line;
  }
}

std::vector<std::string> CsvLines::next_cells() {
  std::vector<std::string> cells;
  bool quoted = false;
  bool after_quotes = false;
  do {
    const std::optional<std::string_view> line = next();
    if (!line) return {};
    if (cells.empty()) {
      cells.emplace_back();
    } else {
      cells.back() += '\n';
    }
    for (const char c : *line) {
      if (c == '"') {
        // Two quotes within quotes stand for one: the first seems to end the cell, the second takes it up again.
        if (after_quotes) cells.back() += '"';
        after_quotes = quoted;
        quoted = !quoted;
        continue;
      }
      after_quotes = false;
      if (c == ',' && !quoted) {
        cells.emplace_back();
      } else {
        cells.back() += c;
      }
    }
  } while (quoted);
  return cells;
}

}  // namespace levin::cli
