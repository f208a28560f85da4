#include "levin/core/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

[[noreturn]] void throw_unreadable(int error, const std::string& where = "") {
  throw IoError(format("cannot be read ({}){}", std::generic_category().message(error), where));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  // Not blocking: opening a pipe must not wait for a writer.
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw_unreadable(errno, working_folder_of(file));
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    const bool is_folder = S_ISDIR(status.st_mode);
    close(descriptor);
    throw_unreadable(is_folder ? EISDIR : EINVAL);
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* mapping = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
    const int error = errno;
    if (mapping == MAP_FAILED) {
      close(descriptor);
      throw_unreadable(error);
    }
    data_ = static_cast<char*>(mapping);
  }
  close(descriptor);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::uint32_t MappedFile::checksum() const {
  return static_cast<std::uint32_t>(crc32_z(crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(data_), size_));
}

}  // namespace levin
