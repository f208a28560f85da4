#include "levin/strategies/host/descriptor_message.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace levin::test {
namespace {

/// Two sockets or the two ends of a pipe.
struct Ends {
  ~Ends() {
    for (const int end : numbers) close(end);
  }
  std::array<int, 2> numbers{};
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_CASE("a message brings bytes and open descriptors to another socket") {
  Ends sockets;
  Ends pipe_ends;
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.numbers.data()) == 0);
  REQUIRE(pipe(pipe_ends.numbers.data()) == 0);
  REQUIRE(send_descriptors(sockets.numbers[0], bytes_of("hello"), pipe_ends.numbers, 0) == 5);

  std::array<std::byte, 16> bytes{};
  std::vector<int> descriptors = {-1};
  REQUIRE(receive_descriptors(sockets.numbers[1], bytes, descriptors, MSG_DONTWAIT) == 5);
  CHECK(std::memcmp(bytes.data(), "hello", 5) == 0);
  REQUIRE(descriptors.size() == 2);
  CHECK(fcntl(descriptors[0], F_GETFD) == FD_CLOEXEC);
  CHECK(write(descriptors[1], "x", 1) == 1);
  char read_back = 0;
  CHECK(read(pipe_ends.numbers[0], &read_back, 1) == 1);
  CHECK(read_back == 'x');
  for (const int descriptor : descriptors) close(descriptor);
}

TEST_CASE("a message without descriptors gives none, and no message says so") {
  Ends sockets;
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.numbers.data()) == 0);
  std::array<std::byte, 16> bytes{};
  std::vector<int> descriptors = {-1};
  CHECK(receive_descriptors(sockets.numbers[1], bytes, descriptors, MSG_DONTWAIT) == -1);
  CHECK(errno == EAGAIN);
  CHECK(descriptors.empty());
  REQUIRE(send(sockets.numbers[0], "abc", 3, 0) == 3);
  CHECK(receive_descriptors(sockets.numbers[1], bytes, descriptors, MSG_DONTWAIT) == 3);
  CHECK(descriptors.empty());
}

TEST_CASE("of a message with more descriptors than are expected none is received") {
  Ends sockets;
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.numbers.data()) == 0);
  std::array<int, 2 * kMostDescriptors> many{};
  many.fill(sockets.numbers[0]);
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(many))> space{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  *CMSG_FIRSTHDR(&header) = {CMSG_LEN(sizeof(many)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), many.data(), sizeof(many));
  REQUIRE(sendmsg(sockets.numbers[0], &header, 0) == 1);
  const int next = dup(0);
  close(next);
  std::array<std::byte, 16> bytes{};
  std::vector<int> descriptors = {-1};
  CHECK(receive_descriptors(sockets.numbers[1], bytes, descriptors, MSG_DONTWAIT) == -1);
  CHECK(errno == EMSGSIZE);
  CHECK(descriptors.empty());
  const int still_next = dup(0);
  close(still_next);
  CHECK(still_next == next);
}

TEST_CASE("more descriptors than a message carries are refused") {
  Ends sockets;
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.numbers.data()) == 0);
  const std::array<int, kMostDescriptors + 1> many{};
  CHECK(send_descriptors(sockets.numbers[0], bytes_of("x"), many, MSG_DONTWAIT) == -1);
  CHECK(errno == EINVAL);
}

}  // namespace
}  // namespace levin::test
