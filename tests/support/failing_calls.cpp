// Loaded before all other libraries (LD_PRELOAD): the call of the kernel with the number LEVIN_FAULT_AT that concerns a file in
// LEVIN_FAULT_FOLDER fails with LEVIN_FAULT_ERRNO, and a folder LEVIN_FAULT_MARK then says that it has. Counted are open,
// write, pwrite, fsync, rename and symlink, from 1 on. With LEVIN_FAULT_ERRNO=hang that call and all later ones never
// return, as when a file server is down.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>

namespace {

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// True when this call must fail; errno is then set.
bool fails(const char* path) {
  const char* folder = std::getenv("LEVIN_FAULT_FOLDER");
  const char* at = std::getenv("LEVIN_FAULT_AT");
  const char* error = std::getenv("LEVIN_FAULT_ERRNO");
  if (folder == nullptr || at == nullptr || error == nullptr || path == nullptr) return false;
  if (!std::string(path).starts_with(folder)) return false;
  static std::atomic<int> calls{0};
  const bool hangs = std::string(error) == "hang";
  const int call = ++calls;
  if (call < std::atoi(at) || (call > std::atoi(at) && !hangs)) return false;
  if (const char* mark = std::getenv("LEVIN_FAULT_MARK")) mkdir(mark, 0700);
  while (hangs) pause();
  errno = std::atoi(error);
  return true;
}

bool fails(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return readlink(link.c_str(), path.data(), path.size() - 1) > 0 && fails(path.data());
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static const auto next = real<int (*)(const char*, int, ...)>("open");
  return fails(path) ? -1 : next(path, flags, mode);
}

__attribute__((visibility("default"))) ssize_t write(int descriptor, const void* bytes, size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  return fails(descriptor) ? -1 : next(descriptor, bytes, size);
}

__attribute__((visibility("default"))) ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return fails(descriptor) ? -1 : next(descriptor, bytes, size, offset);
}

__attribute__((visibility("default"))) int fsync(int descriptor) {
  static const auto next = real<int (*)(int)>("fsync");
  return fails(descriptor) ? -1 : next(descriptor);
}

__attribute__((visibility("default"))) int rename(const char* from, const char* to) {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  return fails(from) ? -1 : next(from, to);
}

__attribute__((visibility("default"))) int symlink(const char* target, const char* path) {
  static const auto next = real<int (*)(const char*, const char*)>("symlink");
  return fails(path) ? -1 : next(target, path);
}
}
