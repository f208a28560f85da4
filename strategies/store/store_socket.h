#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace levin {

using Deadline = std::chrono::steady_clock::time_point;

/// A file descriptor, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Where a run's store can be reached.
struct StoreAddress {
  std::string text;                               ///< "127.0.0.1:29500", for errors
  std::function<Descriptor(Deadline)> connect{};  ///< one try; throws LostConnection, or DesyncError where another is no use
};

/// Nobody listens, or who listened has closed the connection: a moment later it may be different. what() is a part of a
/// sentence: "Connection refused".
class LostConnection : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A store at a TCP port, between hosts.
StoreAddress tcp_address(const std::string& host, int port);
/// A store that is reached over an inherited socket (see StoreSockets), which stays the caller's.
StoreAddress inherited_address(int socket);

/// Listens at the addresses of `host` only, or, where none of them is this machine's own (as behind a router), or they cannot
/// be reached from elsewhere although the name is not "localhost", at all. Throws DesyncError: the port is taken, here or
/// where the address leads to. Looks the name up until the deadline.
std::vector<Descriptor> listen_at(const std::string& host, int port,
                                  Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30));
/// The address of this host from which it reaches another: that of the interface to it. "" when there is no way. Sends nothing.
std::string own_address_towards(const std::string& host, int port, Deadline deadline);
/// The next connection that was handed over on an inherited socket; not open when there is none now.
Descriptor take_handed_over(int socket);
/// The two ends of a new connection between threads or processes of this host. Throws LostConnection.
std::pair<Descriptor, Descriptor> connected_pair();

/// "10.0.0.7:51234", or "this host".
std::string peer_text(int socket);

/// Sends all of it, or throws LostConnection. Nothing has been said in time: false.
bool send_until(int socket, std::string_view bytes, Deadline deadline);
/// What has arrived, at least a byte; empty when nothing has in time. Throws LostConnection.
std::string receive_until(int socket, Deadline deadline);

}  // namespace levin
