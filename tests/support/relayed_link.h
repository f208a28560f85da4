#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace levin::test {

/// What becomes of the packets that each side of a link sends.
struct LinkQuality {
  std::chrono::milliseconds delay{0};
  double loss = 0;         ///< the share of them that never arrives, from 0 to 1
  std::uint64_t seed = 1;  ///< which ones
};

/// A link between two network namespaces, of a TUN device in each: a thread of this process carries the packets over, late and
/// not all of them. Unlike netem it needs nothing of the kernel but /dev/net/tun. The devices are gone with this object.
class RelayedLink {
 public:
  /// `device`: its name in both namespaces, which `ip netns` knows by theirs.
  RelayedLink(const std::array<std::string, 2>& namespaces, const std::string& device, const LinkQuality& quality);
  ~RelayedLink();
  RelayedLink(const RelayedLink&) = delete;
  RelayedLink& operator=(const RelayedLink&) = delete;

  /// Why there is none: the device or the right is missing; "" when it is there.
  const std::string& hindrance() const { return hindrance_; }

 private:
  void carry(const LinkQuality& quality) const;

  std::array<int, 2> devices_{-1, -1};
  std::array<int, 2> end_{-1, -1};  ///< a pipe; closed where one writes, the thread ends
  std::string hindrance_;
  std::thread thread_;
};

}  // namespace levin::test
