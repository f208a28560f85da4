#include "levin/core/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>

#include "levin/core/error.h"

namespace levin {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// A name that no other process or thread chooses. Not derived from the file's own name, which may be as long as a name can be.
std::filesystem::path temporary_in(const std::filesystem::path& folder) {
  std::random_device random;
  return folder / (".levin-" + std::to_string(getpid()) + "-" + std::to_string(random()) + ".tmp");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path file) : file_(std::move(file)), temporary_(temporary_in(folder_of(file_))) {
  std::error_code error;
  std::filesystem::create_directories(folder_of(file_), error);
  if (error) fail("make its folder", error.value());
  if (std::filesystem::is_directory(file_, error)) fail("write it", EISDIR);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("write in its folder", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB at once.
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t(1) << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write it", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("bring it to disk", errno);
  if (rename(temporary_.c_str(), file_.c_str()) != 0) fail("give it its name", errno);
  close(descriptor_);
  descriptor_ = -1;
  const int folder = open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("open its folder", errno);
  const int failed = fsync(folder) != 0 ? errno : 0;
  close(folder);
  // Some file systems have no fsync for folders; the rename itself was atomic all the same.
  if (failed != 0 && failed != EINVAL && failed != ENOTSUP) fail("bring its folder to disk", failed);
}

void AtomicFile::fail(const std::string& doing, int error) const {
  throw IoError("Cannot save '" + file_.string() + "': could not " + doing + " (" + std::generic_category().message(error) +
                "). What was there before is unchanged.");
}

}  // namespace levin
