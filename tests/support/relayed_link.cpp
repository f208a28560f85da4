#include "support/relayed_link.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace levin::test {

namespace {

using Clock = std::chrono::steady_clock;

struct Packet {
  Clock::time_point due;
  std::vector<char> bytes;
};

std::string reason(const std::string& what) { return what + ": " + std::strerror(errno); }

/// A TUN device in the calling thread's network namespace.
int make_device(const std::string& name) {
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) return -1;
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(device, TUNSETIFF, &request) == 0) return device;
  const int error = errno;
  close(device);
  errno = error;
  return -1;
}

/// Enters a namespace with the calling thread alone, and makes the device there. What hinders it, or "".
std::string make_device_in(const std::string& network, const std::string& name, int& device) {
  const int descriptor = open(("/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return reason("the network " + network + " is not there");
  const bool entered = setns(descriptor, CLONE_NEWNET) == 0;
  const std::string refused = entered ? "" : reason("this user may not enter a network");
  close(descriptor);
  if (!entered) return refused;
  device = make_device(name);
  return device < 0 ? reason("/dev/net/tun gives no device") : "";
}

/// All packets that the device has, but for those that get lost.
template <class IsLost>
void receive(int device, std::chrono::milliseconds delay, IsLost is_lost, std::deque<Packet>& queue) {
  std::array<char, 65536> bytes;
  for (ssize_t length = 0; (length = read(device, bytes.data(), bytes.size())) > 0;) {
    if (!is_lost()) queue.push_back({Clock::now() + delay, {bytes.begin(), bytes.begin() + length}});
  }
}

void send_due(int device, std::deque<Packet>& queue) {
  while (!queue.empty() && queue.front().due <= Clock::now()) {
    // A device that is down refuses packets, which are lost like those on any link that is cut.
    [[maybe_unused]] const ssize_t sent = write(device, queue.front().bytes.data(), queue.front().bytes.size());
    queue.pop_front();
  }
}

}  // namespace

RelayedLink::RelayedLink(const std::array<std::string, 2>& namespaces, const std::string& device, const LinkQuality& quality) {
  // In a thread of its own, which stays in the namespace that it entered last.
  std::thread([&] {
    for (const std::size_t side : {0, 1}) {
      if (hindrance_.empty()) hindrance_ = make_device_in(namespaces[side], device, devices_[side]);
    }
  }).join();
  if (hindrance_.empty() && pipe2(end_.data(), O_CLOEXEC) != 0) hindrance_ = reason("no pipe can be made");
  if (hindrance_.empty()) thread_ = std::thread([this, quality] { carry(quality); });
}

RelayedLink::~RelayedLink() {
  if (end_[1] >= 0) close(end_[1]);
  if (thread_.joinable()) thread_.join();
  for (const int descriptor : {end_[0], devices_[0], devices_[1]}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void RelayedLink::carry(const LinkQuality& quality) const {
  std::mt19937_64 random(quality.seed);
  std::bernoulli_distribution lost(quality.loss);
  std::array<std::deque<Packet>, 2> queues;  // by who sent them
  for (;;) {
    std::array<pollfd, 3> ready = {{{devices_[0], POLLIN, 0}, {devices_[1], POLLIN, 0}, {end_[0], POLLIN, 0}}};
    auto wait = Clock::duration(std::chrono::seconds(1));
    for (const auto& queue : queues) {
      if (!queue.empty()) wait = std::clamp(queue.front().due - Clock::now(), Clock::duration::zero(), wait);
    }
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
    const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    ppoll(ready.data(), ready.size(), &limit, nullptr);
    if (ready[2].revents != 0) return;
    for (const std::size_t side : {0, 1}) {
      if ((ready[side].revents & POLLIN) != 0) {
        receive(
            devices_[side], quality.delay, [&] { return lost(random); }, queues[side]);
      }
      send_due(devices_[1 - side], queues[side]);
    }
  }
}

}  // namespace levin::test
