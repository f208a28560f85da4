#include "levin/strategies/host/shared_file.h"

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

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_CASE("a message brings bytes and open descriptors to another socket") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  std::array<int, 2> numbers{};
  REQUIRE(pipe(numbers.data()) == 0);
  const Descriptor output(numbers[0]);
  const Descriptor input(numbers[1]);
  REQUIRE(send_descriptors(sender.number(), bytes_of("hello"), numbers, 0) == 5);

  std::array<std::byte, 16> bytes{};
  std::vector<Descriptor> descriptors(1);
  REQUIRE(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == 5);
  CHECK(std::memcmp(bytes.data(), "hello", 5) == 0);
  REQUIRE(descriptors.size() == 2);
  CHECK(fcntl(descriptors[0].number(), F_GETFD) == FD_CLOEXEC);
  CHECK(write(descriptors[1].number(), "x", 1) == 1);
  char read_back = 0;
  CHECK(read(output.number(), &read_back, 1) == 1);
  CHECK(read_back == 'x');
}

TEST_CASE("a message without descriptors gives none, and no message says so") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  std::array<std::byte, 16> bytes{};
  std::vector<Descriptor> descriptors(1);
  CHECK(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == -1);
  CHECK(errno == EAGAIN);
  CHECK(descriptors.empty());
  REQUIRE(send(sender.number(), "abc", 3, 0) == 3);
  CHECK(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == 3);
  CHECK(descriptors.empty());
}

TEST_CASE("of a message with more descriptors than are expected none is received") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  std::array<int, 2 * kMostDescriptors> many{};
  many.fill(sender.number());
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
  REQUIRE(sendmsg(sender.number(), &header, 0) == 1);
  const int next = dup(0);
  close(next);
  std::array<std::byte, 16> bytes{};
  std::vector<Descriptor> descriptors(1);
  CHECK(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == -1);
  CHECK(errno == EMSGSIZE);
  CHECK(descriptors.empty());
  const int still_next = dup(0);
  close(still_next);
  CHECK(still_next == next);
}

TEST_CASE("more descriptors than a message carries are refused") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  const std::array<int, kMostDescriptors + 1> many{};
  CHECK(send_descriptors(sender.number(), bytes_of("x"), many, MSG_DONTWAIT) == -1);
  CHECK(errno == EINVAL);
}

}  // namespace
}  // namespace levin::test
