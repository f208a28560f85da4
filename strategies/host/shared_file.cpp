#include "levin/strategies/host/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {

namespace {

/// Closes the descriptor, unless it is -1, when it has said why.
[[noreturn]] void throw_failed(const std::string& what, int descriptor, int error = errno) {
  if (descriptor >= 0) close(descriptor);
  throw IoError(format("shared memory of the run: {} failed: {}", what, std::strerror(error)));
}

}  // namespace

SharedFile::SharedFile(int descriptor, std::size_t bytes)
    : descriptor_(descriptor), bytes_(bytes), memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {
  if (memory_ == MAP_FAILED) throw_failed(format("mmap of {} bytes", bytes), descriptor_);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}

SharedFile::~SharedFile() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

SharedFile SharedFile::create(std::size_t bytes) {
  open_standard_descriptors();
  const int descriptor = memfd_create("levin", MFD_CLOEXEC);
  if (descriptor < 0) throw_failed("memfd_create", descriptor);
  rlimit limit{};
  // Going beyond it would end the process with SIGXFSZ.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    throw_failed(format("fallocate of {} bytes", bytes), descriptor, EFBIG);
  }
  // A page that is not there yet would end the process with SIGBUS when memory has run out meanwhile.
  const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (error != 0) throw_failed(format("fallocate of {} bytes", bytes), descriptor, error);
  return {descriptor, bytes};
}

SharedFile SharedFile::attach(int descriptor) {
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) throw_failed(format("descriptor {}", descriptor), -1);
  if (status.st_size == 0) throw_failed(format("descriptor {}", descriptor), descriptor, EINVAL);
  return {descriptor, static_cast<std::size_t>(status.st_size)};
}

SharedFilePlace SharedFile::place() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) throw_failed(format("descriptor {}", descriptor_), -1);
  return {getpid(), descriptor_, status.st_ino};
}

SharedFile SharedFile::open_at(const SharedFilePlace& place) {
  open_standard_descriptors();
  const std::string path = format("/proc/{}/fd/{}", place.process, place.descriptor);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) throw_failed("open of " + path, opened);
  struct stat status {};
  if (fstat(opened, &status) != 0 || !S_ISREG(status.st_mode) || status.st_ino != place.inode) {
    throw_failed("open of " + path + ", which is something else here,", opened, ENOENT);
  }
  return attach(opened);
}

}  // namespace levin
