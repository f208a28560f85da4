#include "levin/strategies/host/descriptor_message.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace levin {

namespace {

/// A message of one part, with room for descriptors.
struct Message {
  Message(void* bytes, std::size_t size, std::size_t descriptor_bytes) : part{bytes, size} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space.data();
    header.msg_controllen = CMSG_SPACE(descriptor_bytes);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> space{};
  msghdr header{};
};

}  // namespace

ssize_t send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags) {
  if (descriptors.size() > kMostDescriptors) {
    errno = EINVAL;
    return -1;
  }
  Message message(const_cast<std::byte*>(bytes.data()), bytes.size(), descriptors.size_bytes());
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  return sendmsg(socket, &message.header, flags | MSG_NOSIGNAL);
}

ssize_t receive_descriptors(int socket, std::span<std::byte> bytes, std::vector<int>& descriptors, int flags) {
  Message message(bytes.data(), bytes.size(), kMostDescriptors * sizeof(int));
  const ssize_t received = recvmsg(socket, &message.header, flags | MSG_CMSG_CLOEXEC);
  descriptors.clear();
  const cmsghdr* control = received > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return received;
  descriptors.resize((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(descriptors.data(), CMSG_DATA(control), descriptors.size() * sizeof(int));
  if ((message.header.msg_flags & MSG_CTRUNC) == 0) return received;
  // There were more, or this process may open no more.
  for (const int descriptor : descriptors) close(descriptor);
  descriptors.clear();
  errno = EMSGSIZE;
  return -1;
}

}  // namespace levin
