#include "levin/strategies/failure/lost_links.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "levin/strategies/host/shared_memory_status_board.h"

using levin::lost_connection_text;
using levin::unanswering_hosts;

namespace {

constexpr const char* kAddress = "10.9.8.7";
constexpr int kNoNetworkOfItsOwn = 77;

sockaddr_in address_of(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

/// The only link of a network of this process's own, which no packet leaves.
class OwnNetwork {
 public:
  bool make() {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    control_ = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request = named();
    const sockaddr_in address = address_of(kAddress);
    std::memcpy(&request.ifr_addr, &address, sizeof(address));
    return ioctl(control_, SIOCSIFADDR, &request) == 0 && set_up(true);
  }
  bool set_up(bool up) const {
    ifreq request = named();
    if (ioctl(control_, SIOCGIFFLAGS, &request) != 0) return false;
    request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    return ioctl(control_, SIOCSIFFLAGS, &request) == 0;
  }

 private:
  static ifreq named() {
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    return request;
  }
  int control_ = -1;
};

/// Both ends of a TCP connection; the one that was accepted is never read, as in a program that is stopped.
bool connect_to_itself() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = address_of(kAddress);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, size) != 0 || listen(listener, 1) != 0 || getsockname(listener, generic, &size) != 0)
    return false;
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  return connect(client, generic, size) == 0 && accept(listener, nullptr, nullptr) >= 0;
}

/// The exit status of a process of its own that does this.
int status_of(const std::function<int()>& act) {
  const pid_t process = fork();
  if (process == 0) _exit(act());
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a process without connections to other hosts does not wait for them") {
  CHECK(unanswering_hosts(std::chrono::hours(1)).empty());
}

TEST_CASE("a host that answers for a silent program is there, and one behind a link that is down is lost") {
  const int status = status_of([] {
    OwnNetwork network;
    if (!network.make()) return kNoNetworkOfItsOwn;
    if (!connect_to_itself()) return 1;
    if (!unanswering_hosts().empty()) return 2;
    if (!network.set_up(false)) return 3;
    return unanswering_hosts(std::chrono::seconds(30)) == std::vector<std::string>{kAddress} ? 0 : 4;
  });
  if (status == kNoNetworkOfItsOwn) {
    WARN("not tested: this user may make no network of its own (unshare)");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("a rank that waits behind a link that is down blames the link, and no process") {
  const int status = status_of([] {
    OwnNetwork network;
    if (!network.make()) return kNoNetworkOfItsOwn;
    const auto segment = levin::RunSegment::create(2);
    struct BetweenHosts : levin::SharedMemoryStatusBoard {
      using SharedMemoryStatusBoard::SharedMemoryStatusBoard;
      bool spans_hosts() const override { return true; }
    } board(segment, 0);
    if (!connect_to_itself() || !network.set_up(false)) return 1;
    board.report_stall("waited 6 s in a gradient reduction");
    const auto failure = board.failure();
    return failure && failure->rank == 0 &&
                   failure->error.starts_with("the connection to host 10.9.8.7 was lost: it waited 6 s in a gradient reduction")
               ? 0
               : 2;
  });
  if (status == kNoNetworkOfItsOwn) {
    WARN("not tested: this user may make no network of its own (unshare)");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("the hosts that were lost are named") {
  CHECK(lost_connection_text({}).empty());
  CHECK(lost_connection_text({"10.0.0.2"}) == "the connection to host 10.0.0.2 was lost");
  CHECK(lost_connection_text({"10.0.0.2", "::2"}) == "the connections to hosts 10.0.0.2, ::2 were lost");
}
