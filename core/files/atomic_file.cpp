#include "levin/core/files/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/file_watch.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/files/remote_request.h"
#include "levin/core/files/written_files.h"

namespace levin {
namespace {

/// False, with errno set, when they cannot be written. `write(bytes)` is as the system's: it may take some of them.
template <class Write>
bool write_all(std::string_view bytes, const Write& write) {
  while (!bytes.empty()) {
    const ssize_t written = write(bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool write_all_at(const Descriptor& file, std::int64_t offset, std::string_view bytes) {
  return write_all(bytes, [&](std::string_view rest) {
    const ssize_t written = ::pwrite(file.number(), rest.data(), rest.size(), offset);
    offset += std::max<ssize_t>(written, 0);
    WatchedFiles::note_progress();
    return written;
  });
}

/// True for what a file cannot replace: a device or a FIFO, or a link to an open file of a process, such as /dev/stdout.
bool takes_bytes_only(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return false;
  if (!S_ISLNK(status.st_mode)) return !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  const std::string folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  static const auto& of_process = *new std::regex(R"(/proc/[^/]+(/task/[^/]+)?/fd)");
  return folder == "/dev" || folder == "/dev/fd" || std::regex_match(folder, of_process);
}

/// Nothing of that name existed, links included. None, with errno set, when it cannot be made.
Descriptor make_anew(const std::filesystem::path& file) {
  return Descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
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

}  // namespace

OutputFile OutputFile::make(std::filesystem::path path) {
  Descriptor made = make_anew(path);
  OutputFile file(std::move(path), std::move(made));
  if (!file.descriptor_.is_open()) file.fail("make");
  note_written(file.path_);
  return file;
}

void OutputFile::write_at(std::int64_t offset, std::string_view text) {
  if (!write_all_at(descriptor_, offset, text)) fail("write");
}

void OutputFile::append(std::string_view text) {
  const off_t end = ::lseek(descriptor_.number(), 0, SEEK_END);
  if (end < 0 || ::fcntl(descriptor_.number(), F_SETFL, O_APPEND) != 0) fail("append to");
  const auto write_some = [&](std::string_view rest) {
    const ssize_t written = ::write(descriptor_.number(), rest.data(), rest.size());
    WatchedFiles::note_progress();
    return written;
  };
  if (write_all(text, write_some)) return;
  const int error = errno;
  resize(end);
  errno = error;
  fail("write");
}

void OutputFile::resize(std::int64_t size) {
  if (::ftruncate(descriptor_.number(), size) != 0) fail("resize");
}

bool OutputFile::is_in_place() const {
  struct stat named {
  }, open{};
  if (::stat(path_.c_str(), &named) != 0 || ::fstat(descriptor_.number(), &open) != 0) return false;
  return named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

void OutputFile::fail(const char* what) const { throw IoError(format("cannot {} {}: {}", what, path_, std::strerror(errno))); }

AtomicFile::AtomicFile(std::filesystem::path file, MissingFolder missing) : file_(std::move(file)) {
  if (takes_bytes_only(file_)) {
    open_device();
    return;
  }
  std::error_code error;
  if (missing == MissingFolder::kMake || is_remote(file_.native())) std::filesystem::create_directories(folder(), error);
  if (error) fail("make its folder", error.value());
  if (std::filesystem::is_directory(std::filesystem::symlink_status(file_, error))) fail("write it", EISDIR);
  remove_abandoned_once(folder());
  make_temporary();
}

std::filesystem::path AtomicFile::folder() const { return is_remote(file_.native()) ? upload_folder() : folder_of(file_); }

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::open_device() {
  is_device_ = committed_ = true;  // there is nothing to remove
  // Appends, where standard output is a file. A FIFO without a reader is an error, not a wait.
  descriptor_ = Descriptor(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!descriptor_.is_open()) fail("open it", errno);
  const int flags = fcntl(descriptor_.number(), F_GETFL);
  fcntl(descriptor_.number(), F_SETFL, flags & ~O_NONBLOCK);
}

void AtomicFile::make_temporary() {
  while (true) {
    temporary_ = temporary_in(folder());
    descriptor_ = make_anew(temporary_);
    if (!descriptor_.is_open() && errno == EEXIST) continue;
    if (!descriptor_.is_open()) {
      const int error = errno;
      committed_ = true;  // there is nothing to remove
      fail("write in its folder", error);
    }
    // The lock means that a living process owns the file; the kernel releases it when that process ends, however it ends. A
    // file system without locks refuses it to everyone; the file then counts as owned.
    const bool seen = flock(descriptor_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat status {};
    if (!seen && fstat(descriptor_.number(), &status) == 0 && status.st_nlink > 0) return;
    // A search for abandoned files came between the two calls, and has removed it or will.
  }
}

void AtomicFile::write(std::string_view bytes) {
  const auto append = [this](std::string_view rest) { return ::write(descriptor_.number(), rest.data(), rest.size()); };
  if (!is_device_) {
    write_at(size_, bytes);
  } else if (!write_all(bytes, append)) {
    fail("write it", errno);
  }
  size_ += static_cast<std::int64_t>(bytes.size());
}

void AtomicFile::write_at(std::int64_t offset, std::string_view bytes) {
  if (!write_all_at(descriptor_, offset, bytes)) fail("write it", errno);
}

// A file system that cannot do it leaves all to commit().
void AtomicFile::send_to_disk() { (void)::sync_file_range(descriptor_.number(), 0, 0, SYNC_FILE_RANGE_WRITE); }

void AtomicFile::upload() {
  try {
    upload_file(temporary_, file_);
  } catch (const IoError& error) {
    throw IoError(format("Cannot save '{}': {}. The previous file is unchanged.", file_, error.what()));
  }
  committed_ = is_in_place_ = true;
  unlink(temporary_.c_str());
}

void AtomicFile::commit(Disk disk) {
  if (is_device_) return;
  if (is_remote(file_.native())) return upload();
  if (disk == Disk::kWait && fsync(descriptor_.number()) != 0) fail("flush it to disk", errno);
  // A network file system may report a full disk only when a descriptor is closed: the file's own stays open.
  const int copy = disk == Disk::kLeaveToKernel ? fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0) : -1;
  if (copy >= 0 && close(copy) != 0) fail("write it", errno);
  WatchedFiles::note_progress();
  if (WatchedFiles::are_given_up()) fail("write it in time", ETIMEDOUT);
  if (rename(temporary_.c_str(), file_.c_str()) != 0) fail("rename it", errno);
  committed_ = is_in_place_ = true;
  note_written(file_);
  if (disk == Disk::kLeaveToKernel) return;
  const Descriptor folder(open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() && errno == EACCES) return;  // a folder that may be entered but not read
  if (!folder.is_open()) fail("open its folder", errno);
  const int failed = fsync(folder.number()) != 0 ? errno : 0;
  // Some file systems have no fsync for folders; the rename itself was atomic all the same.
  if (failed != 0 && failed != EINVAL && failed != ENOTSUP) fail("flush its folder to disk", failed);
}

OutputFile AtomicFile::take() {
  flock(descriptor_.number(), LOCK_UN);
  return OutputFile(file_, std::move(descriptor_));
}

void AtomicFile::fail(const std::string& doing, int error) const {
  // The destructor does not run when the constructor throws.
  if (!committed_ && !temporary_.empty()) unlink(temporary_.c_str());
  const std::string why = format("could not {} ({})", doing, std::generic_category().message(error));
  if (is_in_place_) throw IoError(format("'{}' is saved, but may not survive a power failure: {}.", file_, why));
  if (is_device_) throw IoError(format("Cannot write to '{}': {}.", file_, why));
  throw IoError(format("Cannot save '{}': {}. The previous file is unchanged.", file_, why));
}

void write_file(const std::filesystem::path& file, std::string_view content, AtomicFile::MissingFolder missing) {
  AtomicFile output(file, missing);
  output.write(content);
  output.commit();
}

std::filesystem::path move_to_backup(const std::filesystem::path& file, const BackupName& name) {
  for (int number = 1;; ++number) {
    std::filesystem::path backup = folder_of(file) / name(number);
    if (std::filesystem::exists(std::filesystem::symlink_status(backup))) continue;
    std::error_code error;
    std::filesystem::rename(file, backup, error);
    if (error) throw IoError(format("cannot rename {} to {}: {}", file, backup, error.message()));
    note_renamed(file, backup);
    return backup;
  }
}

void write_file_with_backup(const std::filesystem::path& file, std::string_view content, const BackupName& name,
                            AtomicFile::MissingFolder missing) {
  std::error_code ignored;
  const bool is_taken = std::filesystem::exists(std::filesystem::symlink_status(file, ignored)) && !takes_bytes_only(file);
  if (is_taken && file_bytes(file, content.size()) == content) return;
  if (is_taken) move_to_backup(file, name);
  write_file(file, content, missing);
}

void replace_link(const std::filesystem::path& link, const std::filesystem::path& target) {
  remove_abandoned_once(folder_of(link));
  std::filesystem::path temporary;
  int failed = EEXIST;
  while (failed == EEXIST) {
    temporary = temporary_in(folder_of(link));
    failed = symlink(target.c_str(), temporary.c_str()) != 0 ? errno : 0;
  }
  if (failed == 0 && rename(temporary.c_str(), link.c_str()) != 0) {
    failed = errno;
    unlink(temporary.c_str());
  }
  if (failed == 0) return note_written(link);
  throw IoError(format("Could not make {} a link to {}: {}.", link, target, std::generic_category().message(failed)));
}

std::string temporary_host() {
  constexpr std::size_t kMaxHost = 64;
  std::string host = host_name().substr(0, kMaxHost);
  const auto is_other = [](unsigned char character) { return std::isalnum(character) == 0 && character != '-'; };
  std::replace_if(host.begin(), host.end(), is_other, '_');
  return host;
}

// Not derived from the file's own name, which may be as long as a name can be.
std::filesystem::path temporary_in(const std::filesystem::path& folder) {
  std::random_device random;
  return folder / format(".levin-{}-{}-{}.tmp", getpid(), random(), temporary_host());
}

std::optional<std::string> host_of_temporary(const std::string& name) {
  // Never destroyed: files may be written when static objects have gone.
  static const auto& form = *new std::regex(R"(\.levin-\d+-\d+(?:-(.*))?\.tmp)");
  std::smatch parts;
  return std::regex_match(name, parts, form) ? std::optional(parts[1].str()) : std::nullopt;
}

namespace {

bool is_old(const struct stat& file) {
  constexpr std::time_t kForeignAge = 24L * 60 * 60;
  return file.st_mtime + kForeignAge < std::time(nullptr);
}

void remove_if_abandoned(const std::filesystem::path& path, bool made_here) {
  struct stat named {};
  if (lstat(path.c_str(), &named) != 0 || named.st_uid != geteuid()) return;
  // A link has no lock, and exists only for an instant.
  if (S_ISLNK(named.st_mode) && is_old(named)) unlink(path.c_str());
  if (!S_ISREG(named.st_mode) || !(made_here || is_old(named))) return;
  // For writing, since a network file system may keep the lock as one of a range that is written to.
  const Descriptor file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat locked {};
  const bool is_free = flock(file.number(), LOCK_EX | LOCK_NB) == 0 && fstat(file.number(), &locked) == 0;
  if (is_free && locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) unlink(path.c_str());
}

}  // namespace

void remove_abandoned(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::string here = temporary_host();
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    const auto host = host_of_temporary(entry->path().filename().string());
    if (host) remove_if_abandoned(entry->path(), *host == here);
  }
}

}  // namespace levin
