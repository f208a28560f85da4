#include "levin/loggers/csv_text.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

void append_csv_text(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

void append_csv_number(std::string& line, double value) {
  if (std::isnan(value)) {
    line += "NaN";
  } else {
    append_float(line, value);
  }
}

void append_csv_number(std::string& line, std::int64_t value) {
  std::array<char, 24> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  line.append(buffer.data(), end);
}

CsvReader::CsvReader(const std::filesystem::path& file) : file_(file), stream_(file, std::ios::binary) {
  if (!stream_) throw IoError(format("cannot read {}: {}", file, std::strerror(errno)));
}

bool CsvReader::next(std::vector<std::string>& cells) try {
  // Past the stream's formatted layers: files of a million rows are read when a run ends.
  std::streambuf& input = *stream_.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  std::size_t count = 0;
  const auto add_cell = [&]() -> std::string* {
    if (count == cells.size()) cells.emplace_back();
    cells[count].clear();
    return &cells[count++];
  };
  std::string* cell = nullptr;
  bool quoted = false;
  bool after_quotes = false;
  for (int c = input.sbumpc(); c != kEnd; c = input.sbumpc()) {
    if (!quoted && (c == '\n' || c == '\r')) {
      if (cell == nullptr) continue;
      cells.resize(count);
      return true;
    }
    if (cell == nullptr) cell = add_cell();
    if (c == '"') {
      // Two quotes within quotes stand for one: the first seems to end the cell, the second takes it up again.
      if (after_quotes) *cell += '"';
      after_quotes = quoted;
      quoted = !quoted;
      continue;
    }
    after_quotes = false;
    if (c == ',' && !quoted) {
      cell = add_cell();
    } else {
      *cell += static_cast<char>(c);
    }
  }
  cells.clear();
  return false;
} catch (const std::ios_base::failure& failure) {
  throw IoError(format("cannot read {}: {}", file_, failure.code().message()));
}

}  // namespace levin
