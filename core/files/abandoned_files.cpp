#include "levin/core/files/abandoned_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/files/paths.h"

namespace levin {
namespace {

constexpr std::time_t kForeignAge = 24L * 60 * 60;

struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  const int number;
};

// Names of temporaries in the folder, with the host that made each.
std::vector<std::pair<std::string, std::string>> temporaries_in(int folder) {
  std::vector<std::pair<std::string, std::string>> found;
  const int copy = fcntl(folder, F_DUPFD_CLOEXEC, 3);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : fdopendir(copy), closedir);
  if (!entries) {
    if (copy >= 0) close(copy);
    return found;
  }
  while (const dirent* entry = readdir(entries.get())) {
    if (const auto host = host_of_temporary(entry->d_name)) found.emplace_back(entry->d_name, *host);
  }
  return found;
}

bool is_old(const struct stat& file, std::time_t now) { return file.st_mtime + kForeignAge < now; }

void remove_if_abandoned(int folder, const std::string& name, bool made_here, std::time_t now) {
  struct stat named {};
  if (fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_uid != geteuid()) return;
  // A link has no lock of its own, and exists for an instant only.
  if (S_ISLNK(named.st_mode) && is_old(named, now)) unlinkat(folder, name.c_str(), 0);
  if (!S_ISREG(named.st_mode) || !(made_here || is_old(named, now))) return;
  // For writing, since a network file system may keep the lock as one of a range that is written to.
  const Descriptor file(openat(folder, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.number < 0 || flock(file.number, LOCK_EX | LOCK_NB) != 0) return;
  struct stat locked {};
  if (fstat(file.number, &locked) != 0 || locked.st_ino != named.st_ino || locked.st_dev != named.st_dev) return;
  unlinkat(folder, name.c_str(), 0);
}

}  // namespace

void remove_abandoned(const std::filesystem::path& path) {
  const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number < 0) return;
  const auto temporaries = temporaries_in(folder.number);
  if (temporaries.empty()) return;
  const std::time_t now = std::time(nullptr);
  const std::string here = temporary_host();
  for (const auto& [name, host] : temporaries) remove_if_abandoned(folder.number, name, host == here, now);
}

void remove_abandoned_once(const std::filesystem::path& folder) {
  static std::mutex mutex;
  // Never destroyed: files may be written when static objects have gone.
  static auto& seen = *new std::set<std::pair<dev_t, ino_t>>;
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return;
  {
    const std::lock_guard lock(mutex);
    if (!seen.emplace(status.st_dev, status.st_ino).second) return;
  }
  remove_abandoned(folder);
}

}  // namespace levin
