#include "levin/core/files/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace levin {
namespace {

/// Of the file's size, which it may have no more when it is read.
std::string bytes_of(const Descriptor& file, std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t have = 0;
  while (have < most) {
    const ssize_t got = ::read(file.number(), &bytes[have], most - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::size_t size_of(const Descriptor& file) {
  struct stat status {};
  return fstat(file.number(), &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
}

}  // namespace

Descriptor open_plain_file(const std::filesystem::path& file, Links links) {
  const int no_links = links == Links::kRefused ? O_NOFOLLOW : 0;
  Descriptor opened(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | no_links));
  if (!opened.is_open()) return opened;
  struct stat status {};
  if (fstat(opened.number(), &status) == 0 && S_ISREG(status.st_mode)) return opened;
  errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  const int reason = errno;
  opened = Descriptor();
  errno = reason;
  return opened;
}

std::ifstream open_plain_stream(const std::filesystem::path& file) {
  const bool is_plain = open_plain_file(file).is_open();
  std::ifstream stream;
  if (is_plain) {
    stream.open(file, std::ios::binary);
  } else {
    stream.setstate(std::ios::failbit);
  }
  return stream;
}

std::string why_not_opened(int error) {
  if (error == EINVAL || error == ENXIO) return "it is not a regular file";
  return error == ELOOP ? "it is a symbolic link, which is not followed" : std::generic_category().message(error);
}

std::optional<std::string> file_bytes(const std::filesystem::path& file, std::size_t longest, Links links) {
  const Descriptor opened = open_plain_file(file, links);
  if (!opened.is_open()) return std::nullopt;
  const std::size_t size = size_of(opened);
  return size <= longest ? std::optional(bytes_of(opened, size)) : std::nullopt;
}

std::string first_bytes(const std::filesystem::path& file, std::size_t most) {
  const Descriptor opened = open_plain_file(file);
  return opened.is_open() ? bytes_of(opened, std::min(most, size_of(opened))) : "";
}

}  // namespace levin
