#include "levin/cli/report/run_media.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "levin/cli/report/csv_lines.h"
#include "levin/cli/report/file_bytes.h"
#include "levin/core/base/error.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNewest = 12;
constexpr std::size_t kMostTableRows = 200;

struct Kind {
  std::string_view folder;
  std::string_view extension;
};
constexpr std::array<Kind, 4> kKinds = {{{"images", ".png"}, {"figures", ".svg"}, {"text", ".txt"}, {"tables", ".csv"}}};

std::optional<std::int64_t> step_of(const fs::path& file) {
  const std::string name = file.stem();
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::size_t bytes_of(const Value& data) {
  if (data.is_string()) return data.as_string().size();
  std::size_t bytes = 0;
  for (const Value& row : data.as_list()) {
    for (const Value& cell : row.as_list()) bytes += cell.as_string().size() + 16;
  }
  return bytes;
}

std::optional<Value> table_rows(const fs::path& file) try {
  CsvLines lines(file);
  Value::List rows;
  for (auto cells = lines.next_cells(); !cells.empty() && rows.size() <= kMostTableRows; cells = lines.next_cells())
    rows.emplace_back(Value::List(cells.begin(), cells.end()));
  return rows;
} catch (const IoError&) {
  return std::nullopt;
}

/// Nothing for a file that is larger than this, or not of its kind.
std::optional<Value> data_of(const std::string& kind, const fs::path& file, std::size_t longest) {
  if (kind == "tables") return table_rows(file);
  const std::optional<std::string> bytes = file_bytes(file, longest);
  if (!bytes) return std::nullopt;
  if (kind == "text") return *bytes;
  // As the source of an <img>, an SVG neither runs a script nor loads anything: browsers see to that.
  if (kind == "figures") return "data:image/svg+xml;base64," + base64(*bytes);
  if (!bytes->starts_with("\x89PNG")) return std::nullopt;
  return "data:image/png;base64," + base64(*bytes);
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](std::size_t index) -> unsigned {
      return at + index < bytes.size() ? static_cast<unsigned char>(bytes[at + index]) : 0U;
    };
    const unsigned bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    const std::size_t count = std::min<std::size_t>(bytes.size() - at, 3) + 1;
    for (std::size_t letter = 0; letter < 4; ++letter) text += letter < count ? kLetters[bits >> (18 - 6 * letter) & 63U] : '=';
  }
  return text;
}

std::vector<MediaSeries> find_media(const fs::path& run, std::size_t place) {
  std::vector<MediaSeries> all;
  for (const Kind& kind : kKinds) {
    const fs::path folder = run / "media" / kind.folder;
    std::map<std::string, std::vector<MediaFile>> by_key;
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      const fs::path& file = entry->path();
      const auto step = step_of(file);
      if (step && file.extension() == kind.extension)
        by_key[file.parent_path().lexically_relative(folder).string()].push_back({*step, file});
    }
    for (auto& [key, files] : by_key) {
      std::sort(files.begin(), files.end(), [](const auto& left, const auto& right) { return left.step < right.step; });
      if (files.size() > kNewest) files.erase(files.begin(), files.end() - kNewest);
      all.push_back({place, std::string(kind.folder), key, std::move(files)});
    }
  }
  return all;
}

EmbeddedMedia embed_media(const std::vector<MediaSeries>& series, std::size_t bytes) {
  EmbeddedMedia media;
  std::vector<Value::List> items(series.size());
  for (std::size_t age = 0; age < kNewest; ++age) {
    for (std::size_t index = 0; index < series.size(); ++index) {
      const std::vector<MediaFile>& files = series[index].files;
      if (age >= files.size()) continue;
      const MediaFile& file = files[files.size() - 1 - age];
      std::optional<Value> data = data_of(series[index].kind, file.path, bytes);
      const std::size_t size = data ? bytes_of(*data) : 0;
      if (!data || size > bytes) {
        ++media.left_out;
        continue;
      }
      bytes -= size;
      items[index].push_back(Value::Map{{"step", file.step}, {"data", std::move(*data)}});
    }
  }
  media.series = Value::List();
  for (std::size_t index = 0; index < series.size(); ++index) {
    if (items[index].empty()) continue;
    std::reverse(items[index].begin(), items[index].end());
    const auto& [run, kind, key, files] = series[index];
    media.series.push_back(
        Value::Map{{"run", static_cast<std::int64_t>(run)}, {"kind", kind}, {"key", key}, {"items", std::move(items[index])}});
  }
  return media;
}

}  // namespace levin::cli
