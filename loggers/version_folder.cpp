#include "levin/loggers/version_folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/written_files.h"
#include "levin/core/logger.h"
#include "levin/loggers/run_file.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_make(const fs::path& folder, const std::error_code& error) {
  throw IoError(format("cannot make the folder {}: {}", folder, error.message()));
}

// N of "version_N", or -1 for another name.
std::int64_t version_number(const std::string& name) {
  constexpr std::string_view kPrefix = "version_";
  if (!name.starts_with(kPrefix)) return -1;
  std::int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  // Runs count from 0. A huge number is a user's text, and has no next one in 64 bits.
  constexpr std::int64_t kHighest = 999'999'999'999;
  return error == std::errc() && stop == end && number >= 0 && number <= kHighest ? number : -1;
}

/// The folders `version_N` in `root`, the highest N first.
std::vector<fs::path> version_folders(const fs::path& root) {
  std::vector<std::pair<std::int64_t, fs::path>> numbered;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::int64_t number = version_number(entry->path().filename().string());
    if (number >= 0) numbered.emplace_back(number, entry->path().lexically_normal());
  }
  std::sort(numbered.rbegin(), numbered.rend());
  std::vector<fs::path> folders;
  for (auto& [number, folder] : numbered) folders.push_back(std::move(folder));
  return folders;
}

/// Makes the folder `version_N` in `root`, N one above the highest there is, and gives its path. Two runs that do this at the
/// same moment get two folders. Throws: IoError.
fs::path make_next_version_folder(const fs::path& root) {
  make_folder(root);
  const std::vector<fs::path> folders = version_folders(root);
  for (std::int64_t next = folders.empty() ? 0 : version_number(folders.front().filename().string()) + 1;; ++next) {
    const fs::path folder = root / format("version_{}", next);
    // Of two runs, one creates the folder, and the other gets `made = false`.
    std::error_code error;
    const bool made = fs::create_directory(folder, error);
    if (error) fail_to_make(folder, error);
    if (made) return folder;
  }
}

std::string place_problem(const char* option, const std::string& folder) {
  if (!leaves_folder(folder)) return "";
  return format("{} is {}, which leads out of save_dir: say with save_dir where to write", option, quoted_text(folder));
}

}  // namespace

void make_folder(const fs::path& folder) {
  // The system ends a path there: the folder made would not be the one requested.
  if (folder.native().find('\0') != std::string::npos)
    throw ConfigError("the path of a folder has a NUL character (\\0) in it");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_to_make(folder, error);
  if (!fs::is_directory(folder, error)) fail_to_make(folder, std::make_error_code(std::errc::not_a_directory));
}

std::string detail::version_problem(const Value& version) {
  const bool has_meaning = version.is_null() || (version.is_int() && version.as_int() >= 0) || version.is_string();
  if (!has_meaning) return "version is the number of a run (from 0 on), or the name of its folder";
  return place_problem("version", version.is_string() ? version.as_string() : "");
}

std::string detail::name_problem(const std::string& name) { return place_problem("name", name); }

fs::path VersionFolder::experiment() const {
  // Not absolute(), which takes no empty path: default_root_dir is one outside of a Trainer.
  return fs::current_path() / expand_home(save_dir) / name;
}

/// The version's folder, when the options say it.
std::optional<fs::path> VersionFolder::chosen() const {
  if (version.is_null()) return std::nullopt;
  const std::string last = version.is_int() ? format("version_{}", version.as_int()) : version.as_string();
  const fs::path folder = (experiment() / last).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();  // an empty name leaves a '/' at the end
}

fs::path VersionFolder::make(const RunInfo& run, const MayShare& may_share) const {
  fs::path folder(run.earlier_token);
  if (folder.empty()) {
    const auto given = chosen();
    const auto is_shared = [&](const fs::path& other) {
      const bool is_beside = other.parent_path() == (experiment() / "version").lexically_normal().parent_path();
      return is_beside && may_share && may_share(other);
    };
    const auto shared = std::ranges::find_if(run.open_folders, is_shared);
    if (given) {
      folder = *given;
      refuse_if_in_use(folder);
    } else {
      folder = shared != run.open_folders.end() ? *shared : make_next_version_folder(experiment());
    }
  }
  make_folder(folder);  // an attempt that wrote nothing has left none
  folder = folder.lexically_normal();
  list_written_files(folder);
  return folder;
}

std::vector<fs::path> VersionFolder::earlier() const {
  if (const auto given = chosen()) return {*given};
  std::vector<fs::path> folders = version_folders(experiment());
  if (folders.empty()) folders.push_back(experiment() / "version_0");
  return folders;
}

std::string VersionFolder::version_of(const fs::path& folder) const {
  return version.is_string() ? version.as_string() : folder.filename().string();
}

fs::path VersionFolder::of_checkpoint(const fs::path& checkpoint, const fs::path& file) const {
  // SAVE_DIR/NAME/VERSION/checkpoints/FILE. With several loggers it is the folder of the first; others, of another NAME, wrote
  // to SAVE_DIR/OTHER/VERSION.
  const fs::path folder = checkpoint.parent_path().parent_path();
  const fs::path own = folder.parent_path().parent_path() / name / folder.filename();
  return !name.empty() && fs::exists(own / file) ? own : folder;
}

}  // namespace levin
