#include "levin/cli/report/run_media.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/csv_reader.h"
#include "levin/core/files/file_bytes.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNewest = 12;
constexpr std::size_t kMostTableRows = 200;

/// Files of a folder below media/, and what they are.
struct Kind {
  std::string_view folder;
  std::string_view extension;
  std::string_view name;
};
constexpr std::array<Kind, 7> kKinds = {{{"images", ".png", "images"},
                                         {"figures", ".png", "figures"},
                                         {"files", ".svg", "figures"},
                                         {"files", ".png", "figures"},
                                         {"histograms", ".csv", "histograms"},
                                         {"texts", ".txt", "texts"},
                                         {"tables", ".csv", "tables"}}};

/// Adds a file to the series that its folder and its name say; not one whose name begins with no step.
void add_file(const fs::path& folder, const fs::path& file, std::map<std::string, std::vector<MediaFile>>& by_key) {
  static const std::regex kName("([0-9]{1,18})(?:_rank([0-9]{1,6}))?(?:_(.+))?");
  std::smatch parts;
  const std::string name = file.stem();
  if (!std::regex_match(name, parts, kName)) return;
  std::string key = file.parent_path().lexically_relative(folder);
  if (parts[2].matched) key += format(", rank {}", parts[2].str());
  by_key[key].push_back({std::stoll(parts[1]), parts[3], file});
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
  CsvReader reader(file, Links::kRefused);
  Value::List rows;
  for (std::vector<std::string> cells; rows.size() <= kMostTableRows && reader.next(cells);)
    rows.emplace_back(Value::List(cells.begin(), cells.end()));
  return rows;
} catch (const IoError&) {
  return std::nullopt;
}

/// Nothing for a file that is larger than this, or not of its kind.
std::optional<Value> data_of(const std::string& kind, const fs::path& file, std::size_t longest) {
  if (kind == "tables" || kind == "histograms") return table_rows(file);
  const std::optional<std::string> bytes = file_bytes(file, longest, Links::kRefused);
  if (!bytes) return std::nullopt;
  if (kind == "texts") return *bytes;
  // As the source of an <img>, an SVG neither runs a script nor loads anything: browsers see to that.
  if (file.extension() == ".svg") return "data:image/svg+xml;base64," + base64(*bytes);
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
    // A page is passed on: what a link leads to may be no one else's business.
    if (fs::is_symlink(folder.parent_path(), error) || fs::is_symlink(folder, error)) continue;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code gone;
      if (!fs::is_regular_file(entry->symlink_status(gone))) continue;
      if (entry->path().extension() == kind.extension) add_file(folder, entry->path(), by_key);
    }
    for (auto& [key, files] : by_key) {
      std::sort(files.begin(), files.end(), [](const MediaFile& left, const MediaFile& right) {
        return std::tie(left.step, left.part) < std::tie(right.step, right.part);
      });
      if (files.size() > kNewest) files.erase(files.begin(), files.end() - kNewest);
      all.push_back({place, std::string(kind.name), key, std::move(files)});
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
      items[index].push_back(Value::Map{{"step", file.step}, {"part", file.part}, {"data", std::move(*data)}});
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
