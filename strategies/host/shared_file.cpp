#include "levin/strategies/host/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {

namespace {

[[noreturn]] void throw_failed(const std::string& what, int error = errno) {
  throw IoError(format("shared memory of the run: {} failed: {}", what, std::strerror(error)));
}

/// A message of one part, with room for descriptors.
struct DescriptorMessage {
  DescriptorMessage(void* bytes, std::size_t size, std::size_t descriptor_bytes) : part{bytes, size} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space.data();
    header.msg_controllen = CMSG_SPACE(descriptor_bytes);
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> space{};
  msghdr header{};
};

}  // namespace

SharedFile::SharedFile(Descriptor descriptor, std::size_t bytes)
    : descriptor_(std::move(descriptor)),
      bytes_(bytes),
      memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.number(), 0)) {
  if (memory_ == MAP_FAILED) throw_failed(format("mmap of {} bytes", bytes));
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}

SharedFile::~SharedFile() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

SharedFile SharedFile::create(std::size_t bytes) {
  open_standard_descriptors();
  Descriptor descriptor(memfd_create("levin", MFD_CLOEXEC));
  if (!descriptor.is_open()) throw_failed("memfd_create");
  rlimit limit{};
  // Going beyond it would end the process with SIGXFSZ.
  const bool is_too_much = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes;
  // A page that does not exist yet would end the process with SIGBUS if memory runs out.
  const int error = is_too_much ? EFBIG : posix_fallocate(descriptor.number(), 0, static_cast<off_t>(bytes));
  if (error != 0) throw_failed(format("fallocate of {} bytes", bytes), error);
  return {std::move(descriptor), bytes};
}

SharedFile SharedFile::attach(Descriptor descriptor) {
  fcntl(descriptor.number(), F_SETFD, FD_CLOEXEC);
  struct stat status {};
  const int error = fstat(descriptor.number(), &status) != 0 ? errno : status.st_size == 0 ? EINVAL : 0;
  if (error != 0) throw_failed(format("descriptor {}", descriptor.number()), error);
  return {std::move(descriptor), static_cast<std::size_t>(status.st_size)};
}

std::string SharedFile::place() const {
  struct stat status {};
  if (fstat(descriptor(), &status) != 0) throw_failed(format("descriptor {}", descriptor()));
  return format("{} {} {}", getpid(), descriptor(), status.st_ino);
}

SharedFile SharedFile::open_at(const std::string& place) {
  open_standard_descriptors();
  std::int64_t process = 0;
  std::int64_t number = -1;
  ino_t inode = 0;
  std::istringstream(place) >> process >> number >> inode;
  const std::string path = format("/proc/{}/fd/{}", process, number);
  Descriptor opened(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!opened.is_open()) throw_failed("open of " + path);
  struct stat status {};
  if (fstat(opened.number(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_ino != inode) {
    throw_failed("open of " + path + ", which is another file here,", ENOENT);
  }
  return attach(std::move(opened));
}

std::pair<Descriptor, Descriptor> connected_sockets(int type) {
  std::array<int, 2> ends = {-1, -1};
  socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data());
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

ssize_t send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags) {
  if (descriptors.size() > kMostDescriptors) {
    errno = EINVAL;
    return -1;
  }
  DescriptorMessage message(const_cast<std::byte*>(bytes.data()), bytes.size(), descriptors.size_bytes());
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  return sendmsg(socket, &message.header, flags | MSG_NOSIGNAL);
}

ssize_t receive_descriptors(int socket, std::span<std::byte> bytes, std::vector<Descriptor>& descriptors, int flags) {
  DescriptorMessage message(bytes.data(), bytes.size(), kMostDescriptors * sizeof(int));
  const ssize_t received = recvmsg(socket, &message.header, flags | MSG_CMSG_CLOEXEC);
  descriptors.clear();
  const cmsghdr* control = received > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return received;
  std::array<int, kMostDescriptors> numbers{};
  std::memcpy(numbers.data(), CMSG_DATA(control), control->cmsg_len - CMSG_LEN(0));
  const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t index = 0; index < count; ++index) descriptors.emplace_back(numbers[index]);
  if ((message.header.msg_flags & MSG_CTRUNC) == 0) return received;
  // There were more, or this process may open no more.
  descriptors.clear();
  errno = EMSGSIZE;
  return -1;
}

}  // namespace levin
