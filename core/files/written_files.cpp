#include "levin/core/files/written_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_set>

#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "run_files.txt";
constexpr std::string_view kTitle = "# levin: what runs have written here, which `levin runs delete` removes";
/// A run that logs an image in each step of a week has a list of this order.
constexpr std::size_t kLongestList = std::size_t{1} << 30U;

/// One file has one name, however its path is written.
std::string name_of(const fs::path& path) { return fs::absolute(path).lexically_normal().string(); }

std::size_t hash_of(const std::string& path) { return std::hash<std::string>()(path); }

/// What is listed in a folder, by hashes: there may be a million.
using Listed = std::unordered_set<std::size_t>;

class Lists {
 public:
  /// Never destroyed: files may be written when static objects have gone.
  static Lists& instance() {
    static auto& lists = *new Lists;
    return lists;
  }

  void add_folder(const fs::path& folder) {
    const fs::path list = list_of_written_files(folder);
    std::error_code error;
    auto present = written_files(folder);
    bool is_other = false;
    // Another rank may have begun it meanwhile: it is empty until that writes the title.
    if (!present && fs::exists(fs::symlink_status(list, error)) &&
        !(fs::is_regular_file(list, error) && fs::is_empty(list, error))) {
      present = written_files(folder);
      is_other = !present;
    }
    Listed listed;
    for (const fs::path& file : present.value_or(std::vector<fs::path>())) listed.insert(hash_of(file));
    const std::lock_guard lock(mutex_);
    if (is_other) {
      folders_.erase(name_of(folder));
    } else {
      folders_[name_of(folder)] = std::move(listed);
    }
  }

  void add(const fs::path& file) {
    const std::lock_guard lock(mutex_);
    fs::path below;
    const auto folder = find(file, below);
    if (folder == folders_.end() || below == kName || folder->second.contains(hash_of(below))) return;
    if (append(folder->first, below.native())) folder->second.insert(hash_of(below));
  }

  bool has(const fs::path& file) {
    const std::lock_guard lock(mutex_);
    fs::path below;
    const auto folder = find(file, below);
    return folder != folders_.end() && folder->second.contains(hash_of(below));
  }

 private:
  using Folders = std::map<std::string, Listed>;

  /// The innermost folder that a file is in, and its path from there.
  Folders::iterator find(const fs::path& file, fs::path& below) {
    if (folders_.empty()) return folders_.end();
    const fs::path path = name_of(file);
    for (fs::path folder = path.parent_path();; folder = folder.parent_path()) {
      const auto found = folders_.find(folder.string());
      if (found != folders_.end()) below = path.lexically_relative(folder);
      if (found != folders_.end() || folder == folder.root_path()) return found;
    }
  }

  static bool append(const fs::path& folder, const std::string& below) {
    if (below.find('\n') != std::string::npos) return false;
    const fs::path file = folder / kName;
    constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    std::string text;
    Descriptor list(open(file.c_str(), kFlags));
    if (!list.is_open() && errno == ENOENT) {
      list = Descriptor(open(file.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
      // Another rank was first.
      if (!list.is_open() && errno == EEXIST) list = Descriptor(open(file.c_str(), kFlags));
    }
    // Of two ranks that begin it both may write the title.
    if (list.is_open() && lseek(list.number(), 0, SEEK_END) == 0) text.append(kTitle) += '\n';
    text.append(below) += '\n';
    // In one write, because other ranks write, too.
    return list.is_open() && ::write(list.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

  std::mutex mutex_;
  Folders folders_;
};

}  // namespace

void list_written_files(const fs::path& folder) { Lists::instance().add_folder(folder); }

void note_written(const fs::path& file) noexcept {
  try {
    Lists::instance().add(file);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the file is there all the same
  }
}

void note_renamed(const fs::path& from, const fs::path& to) noexcept {
  try {
    if (Lists::instance().has(from)) Lists::instance().add(to);
  } catch (...) {  // NOLINT(bugprone-empty-catch): as above
  }
}

fs::path list_of_written_files(const fs::path& folder) { return folder / kName; }

std::optional<std::vector<fs::path>> written_files(const fs::path& folder) {
  const std::optional<std::string> text = file_bytes(list_of_written_files(folder), kLongestList);
  if (!text) return std::nullopt;
  bool has_title = false;
  std::set<fs::path> files;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    at = end + 1;
    has_title = has_title || line == kTitle;
    if (!line.empty() && line != kTitle && !leaves_folder(line)) files.insert(line);
  }
  return has_title ? std::optional(std::vector<fs::path>(files.begin(), files.end())) : std::nullopt;
}

bool remove_unused_folder(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const bool is_own = (name == kName && written_files(folder)) || std::ranges::find(names, name) != names.end();
    if (!is_own) return false;
  }
  if (error) return false;
  for (const std::string& name : names) fs::remove(folder / name, error);
  fs::remove(folder / kName, error);
  return fs::remove(folder, error);
}

}  // namespace levin
