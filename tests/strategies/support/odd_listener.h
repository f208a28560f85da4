#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace levin_test {

/// The behaviour of a server that a rank takes for rank 0.
enum class Oddity { kSilent, kCloses, kSendsGarbage, kSlowBytes, kHugeLength };

/// A port of the loopback interface on which a server listens that is no store.
class OddListener {
 public:
  explicit OddListener(Oddity oddity) : oddity_(oddity), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, generic, size) != 0 || listen(listener_, 16) != 0 || getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("no port to listen on");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~OddListener() {
    stop_ = true;
    thread_.join();
    close(listener_);
    for (const Connection& connection : connections_) close(connection.socket);
  }
  OddListener(const OddListener&) = delete;
  OddListener& operator=(const OddListener&) = delete;
  int port() const { return port_; }

 private:
  struct Connection {
    int socket;
    std::size_t said = 0;
  };
  void run() {
    while (!stop_) {
      pollfd entry{listener_, POLLIN, 0};
      if (poll(&entry, 1, 20) > 0) answer(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      if (oddity_ != Oddity::kSlowBytes) continue;
      // The beginning of a message in levin's format that never ends.
      for (Connection& connection : connections_) {
        if (connection.said < sizeof(kBeginning)) say(connection.socket, std::string(1, kBeginning[connection.said++]));
      }
    }
  }
  void answer(int connection) {
    if (oddity_ == Oddity::kCloses) {
      close(connection);
      return;
    }
    connections_.push_back({connection});
    if (oddity_ == Oddity::kSendsGarbage) say(connection, "SSH-2.0-OpenSSH_9.2\r\n");
    if (oddity_ == Oddity::kHugeLength) say(connection, std::string("LEVS\xff\xff\xff\xff", 8));
  }
  static void say(int connection, const std::string& text) {
    [[maybe_unused]] const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  static constexpr char kBeginning[8] = {'L', 'E', 'V', 'S', 127, 0, 0, 0};

  Oddity oddity_;
  int listener_;
  int port_ = 0;
  std::vector<Connection> connections_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// A port of the loopback interface that was free a moment ago.
inline int free_port() {
  const OddListener listener(Oddity::kCloses);
  return listener.port();
}

}  // namespace levin_test
