#include "levin/loggers/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "levin/core/error.h"

namespace levin {

OutputFile::OutputFile(std::filesystem::path path, bool truncate)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (truncate ? O_TRUNC : 0), 0666)) {
  if (fd_ < 0) fail("open");
}

OutputFile::~OutputFile() { ::close(fd_); }

std::int64_t OutputFile::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("read the size of");
  return status.st_size;
}

void OutputFile::write_at(std::int64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd_, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    offset += written;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::resize(std::int64_t size) {
  if (::ftruncate(fd_, size) != 0) fail("resize");
}

void OutputFile::sync() {
  if (::fsync(fd_) != 0) fail("write");
}

void OutputFile::rename_to(const std::filesystem::path& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) fail("rename");
  path_ = path;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // a folder that may be entered but not read: the rename itself has happened
  ::fsync(fd);
  ::close(fd);
}

void OutputFile::fail(const char* what) const {
  throw IoError(std::string("cannot ") + what + " " + path_.string() + ": " + std::strerror(errno));
}

}  // namespace levin
