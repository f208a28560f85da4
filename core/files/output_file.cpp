#include "levin/core/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

OutputFile OutputFile::make(std::filesystem::path path) {
  OutputFile file(std::move(path), -1);
  file.descriptor_ = ::open(file.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) file.fail("make");
  return file;
}

OutputFile::OutputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void OutputFile::write_at(std::int64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    offset += written;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::resize(std::int64_t size) {
  if (::ftruncate(descriptor_, size) != 0) fail("resize");
}

bool OutputFile::is_in_place() const {
  struct stat named {
  }, open{};
  if (::stat(path_.c_str(), &named) != 0 || ::fstat(descriptor_, &open) != 0) return false;
  return named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

void OutputFile::fail(const char* what) const { throw IoError(format("cannot {} {}: {}", what, path_, std::strerror(errno))); }

}  // namespace levin
