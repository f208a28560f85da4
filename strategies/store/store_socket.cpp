#include "levin/strategies/store/store_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/host/descriptor_message.h"
#include "levin/strategies/store/call_thread.h"

namespace levin {

namespace {

constexpr std::size_t kReceiveBytes = 16 * 1024;
/// A descriptor does not travel alone.
constexpr std::array<std::byte, 1> kOneByte{};

/// Where a name leads.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
  int family() const { return address.ss_family; }
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
};

std::string error_text(int error) { return std::strerror(error); }

/// False when nothing has happened by the deadline.
bool wait_for(int socket, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{socket, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw LostConnection(error_text(errno));
  }
}

struct Lookup {
  int error = 0;
  std::vector<Endpoint> endpoints{};
};

Lookup look_up(const std::string& host, int port, int flags) {
  Lookup found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  found.error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  for (const addrinfo* entry = list; found.error == 0 && entry != nullptr; entry = entry->ai_next) {
    Endpoint& endpoint = found.endpoints.emplace_back();
    std::memcpy(&endpoint.address, entry->ai_addr, entry->ai_addrlen);
    endpoint.size = entry->ai_addrlen;
  }
  if (list != nullptr) freeaddrinfo(list);
  return found;
}

std::vector<Endpoint> resolve(const std::string& host, int port, Deadline deadline) {
  const Lookup numbers = look_up(host, port, AI_NUMERICHOST);
  if (numbers.error == 0) return numbers.endpoints;
  // A name: a resolver may ask servers that never answer.
  CallThread resolver;
  const auto found = resolver.call_until(deadline, [host, port] { return look_up(host, port, 0); });
  if (!found) throw LostConnection(format("the name {} could not be looked up in time", host));
  if (found->error != 0)
    throw LostConnection(format("the name {} could not be looked up: {}", host, gai_strerror(found->error)));
  return found->endpoints;
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(endpoint.address).sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(endpoint.address).sin6_addr);
}

bool means_loopback(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return host == "localhost" || inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

Endpoint any_interface(int port) {
  Endpoint endpoint;
  auto& any = reinterpret_cast<sockaddr_in&>(endpoint.address);
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  endpoint.size = sizeof(any);
  return endpoint;
}

Descriptor connect_to(const Endpoint& endpoint, Deadline deadline) {
  Descriptor connection(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.is_open()) throw LostConnection(error_text(errno));
  if (connect(connection.number(), endpoint.generic(), endpoint.size) != 0) {
    if (errno != EINPROGRESS) throw LostConnection(error_text(errno));
    if (!wait_for(connection.number(), POLLOUT, deadline)) throw LostConnection(error_text(ETIMEDOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) throw LostConnection(error_text(error));
  }
  const int on = 1;
  setsockopt(connection.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return connection;
}

/// The error's number in `error` when it cannot be done.
Descriptor listen_on(const Endpoint& endpoint, int& error) {
  Descriptor listener(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (listener.is_open()) setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (listener.is_open() && endpoint.family() == AF_INET6) {
    setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  const bool listens = listener.is_open() && bind(listener.number(), endpoint.generic(), endpoint.size) == 0 &&
                       listen(listener.number(), SOMAXCONN) == 0;
  error = listens ? 0 : errno;
  return listens ? std::move(listener) : Descriptor();
}

bool is_listened_to(const std::vector<Endpoint>& endpoints) {
  constexpr auto kPatience = std::chrono::seconds(1);
  return std::any_of(endpoints.begin(), endpoints.end(), [&](const Endpoint& endpoint) {
    try {
      return connect_to(endpoint, std::chrono::steady_clock::now() + kPatience).is_open();
    } catch (const LostConnection&) {
      return false;
    }
  });
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

StoreAddress tcp_address(const std::string& host, int port) {
  const auto connect = [host, port](Deadline deadline) {
    std::string problem = format("the name {} leads nowhere", host);
    const std::vector<Endpoint> endpoints = resolve(host, port, deadline);
    for (const Endpoint& endpoint : endpoints) {
      // An address that never answers must not use up the time of the others; whoever calls tries again.
      const Deadline own =
          endpoints.size() == 1 ? deadline : std::min(deadline, std::chrono::steady_clock::now() + std::chrono::seconds(5));
      try {
        return connect_to(endpoint, own);
      } catch (const LostConnection& error) {
        problem = error.what();
      }
    }
    throw LostConnection(problem);
  };
  return {format("{}:{}", host, port), connect};
}

std::pair<Descriptor, Descriptor> connected_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    throw LostConnection(error_text(errno));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

StoreAddress inherited_address(int socket) {
  const auto connect = [socket](Deadline deadline) {
    auto [mine, theirs] = connected_pair();
    const int handed_over = theirs.number();
    while (send_descriptors(socket, kOneByte, std::span(&handed_over, 1), MSG_DONTWAIT) < 0) {
      if (errno != EAGAIN && errno != EINTR) throw LostConnection(error_text(errno));
      if (!wait_for(socket, POLLOUT, deadline)) throw LostConnection(error_text(ETIMEDOUT));
    }
    return std::move(mine);
  };
  return {"the socket of levin's launcher", connect};
}

Descriptor take_handed_over(int socket) {
  std::array<std::byte, 1> byte{};
  std::vector<int> handed_over;
  receive_descriptors(socket, byte, handed_over, MSG_DONTWAIT);
  std::vector<Descriptor> owned(handed_over.begin(), handed_over.end());
  return owned.empty() ? Descriptor() : std::move(owned.front());
}

std::string own_address_towards(const std::string& host, int port, Deadline deadline) {
  try {
    for (const Endpoint& endpoint : resolve(host, port, deadline)) {
      const Descriptor datagrams(socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
      sockaddr_storage own{};
      socklen_t size = sizeof(own);
      auto* generic = reinterpret_cast<sockaddr*>(&own);
      std::array<char, NI_MAXHOST> text{};
      if (connect(datagrams.number(), endpoint.generic(), endpoint.size) == 0 &&
          getsockname(datagrams.number(), generic, &size) == 0 &&
          getnameinfo(generic, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
        return text.data();
      }
    }
  } catch (const LostConnection&) {
    // Whoever needs the other host says that it cannot be reached.
  }
  return "";
}

std::vector<Descriptor> listen_at(const std::string& host, int port, Deadline deadline) {
  const std::string place = format("{}:{}", host, port);
  std::vector<Endpoint> endpoints;
  try {
    endpoints = resolve(host, port, deadline);
  } catch (const LostConnection& error) {
    throw DesyncError(format("rank 0 cannot listen at {}: {}", place, error.what()));
  }
  // Some hosts call themselves 127.0.1.1, and others know them by another address.
  const bool only_here = std::all_of(endpoints.begin(), endpoints.end(), is_loopback) && !means_loopback(host);
  std::vector<Descriptor> listeners;
  int error = EADDRNOTAVAIL;
  bool not_ours = only_here;  // some address is none of this machine's
  for (const Endpoint& endpoint : endpoints) {
    if (only_here) break;
    Descriptor listener = listen_on(endpoint, error);
    if (listener.is_open()) listeners.push_back(std::move(listener));
    if (error == EADDRINUSE || error == EACCES) break;
    not_ours |= error == EADDRNOTAVAIL;
  }
  if (listeners.empty() && not_ours && error != EADDRINUSE && error != EACCES) {
    if (!only_here && is_listened_to(endpoints)) {
      throw DesyncError(
          format("rank 0 cannot listen at {}: that is no address of this host, and somebody listens there "
                 "already. Is another host rank 0, or has it the same NODE_RANK?",
                 place));
    }
    Descriptor listener = listen_on(any_interface(port), error);
    if (listener.is_open()) listeners.push_back(std::move(listener));
  }
  if (listeners.empty() || error == EADDRINUSE) {
    throw DesyncError(format("rank 0 cannot listen at {}: {}{}", place, error_text(error),
                             error == EADDRINUSE ? ". Another program has the port, or a second process is rank 0: give the "
                                                   "run another MASTER_PORT, or each host a NODE_RANK of its own"
                                                 : ""));
  }
  return listeners;
}

std::string peer_text(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(socket, generic, &size) != 0 || address.ss_family == AF_UNIX ||
      getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "this host";
  }
  return format("{}:{}", host.data(), port.data());
}

bool send_until(int socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      throw LostConnection(error_text(errno));
    }
  }
  return true;
}

std::string receive_until(int socket, Deadline deadline) {
  std::array<char, kReceiveBytes> bytes;
  while (true) {
    const ssize_t received = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) return {bytes.data(), static_cast<std::size_t>(received)};
    if (received == 0) throw LostConnection("Connection closed by peer");
    if (errno == EAGAIN) {
      if (!wait_for(socket, POLLIN, deadline)) return {};
    } else if (errno != EINTR) {
      throw LostConnection(error_text(errno));
    }
  }
}

}  // namespace levin
