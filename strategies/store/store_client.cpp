#include "levin/strategies/store/store_client.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/failure/failure.h"
#include "levin/strategies/host/shared_file.h"
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
  if (!found) throw ConnectionLost(format("the name {} could not be looked up in time", host));
  if (found->error != 0)
    throw ConnectionLost(format("the name {} could not be looked up: {}", host, gai_strerror(found->error)));
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

Descriptor connect_to(const Endpoint& endpoint, Deadline deadline) {
  Descriptor connection(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.is_open()) throw ConnectionLost(error_text(errno));
  if (connect(connection.number(), endpoint.generic(), endpoint.size) != 0) {
    if (errno != EINPROGRESS) throw ConnectionLost(error_text(errno));
    if (!is_ready_by(deadline, connection.number(), POLLOUT)) throw ConnectionLost(error_text(ETIMEDOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) throw ConnectionLost(error_text(error));
  }
  const int on = 1;
  setsockopt(connection.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return connection;
}

/// The error's number in `error` when it cannot be done.
Descriptor listen_on(const Endpoint& endpoint, int& error) {
  Descriptor listener(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (endpoint.family() == AF_INET6) setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
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
    } catch (const ConnectionLost&) {
      return false;
    }
  });
}

using Clock = std::chrono::steady_clock;

constexpr auto kFirstPause = std::chrono::milliseconds(5);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

std::string seconds_text(Clock::duration time) {
  const auto tenths = std::chrono::round<std::chrono::milliseconds>(time).count() / 100;
  return format("{}{} s", tenths / 10, tenths % 10 == 0 ? "" : format(".{}", tenths % 10));
}

}  // namespace

StoreAddress tcp_address(const std::string& host, int port) {
  const auto connect = [host, port](Deadline deadline) {
    std::string problem = format("the name {} has no address", host);
    const std::vector<Endpoint> endpoints = resolve(host, port, deadline);
    for (const Endpoint& endpoint : endpoints) {
      // An address that never answers must not use up the time of the others; the caller retries.
      const Deadline own =
          endpoints.size() == 1 ? deadline : std::min(deadline, std::chrono::steady_clock::now() + std::chrono::seconds(5));
      try {
        return connect_to(endpoint, own);
      } catch (const ConnectionLost& error) {
        problem = error.what();
      }
    }
    throw ConnectionLost(problem);
  };
  return {format("{}:{}", host, port), connect};
}

StoreAddress inherited_address(int socket, const std::string& text) {
  const auto connect = [socket](Deadline deadline) {
    auto [mine, theirs] = connected_sockets(SOCK_STREAM | SOCK_NONBLOCK);
    if (!mine.is_open()) throw ConnectionLost(error_text(errno));
    const int handed_over = theirs.number();
    while (send_descriptors(socket, kOneByte, std::span(&handed_over, 1), MSG_DONTWAIT) < 0) {
      if (errno != EAGAIN && errno != EINTR) throw ConnectionLost(error_text(errno));
      if (!is_ready_by(deadline, socket, POLLOUT)) throw ConnectionLost(error_text(ETIMEDOUT));
    }
    return std::move(mine);
  };
  return {text, connect};
}

Descriptor take_handed_over(int socket) {
  std::array<std::byte, 1> byte{};
  std::vector<Descriptor> handed_over;
  receive_descriptors(socket, byte, handed_over, MSG_DONTWAIT);
  return handed_over.empty() ? Descriptor() : std::move(handed_over.front());
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
  } catch (const ConnectionLost&) {
    // Code that needs the other host reports that it cannot be reached.
  }
  return "";
}

std::vector<Descriptor> listen_at(const std::string& host, int port, Deadline deadline) {
  const std::string place = format("{}:{}", host, port);
  std::vector<Endpoint> endpoints;
  try {
    endpoints = resolve(host, port, deadline);
  } catch (const ConnectionLost& error) {
    throw DesyncError(format("rank 0 cannot listen at {}: {}", place, error.what()));
  }
  // Some hosts call themselves 127.0.1.1, and others know them by another address.
  const bool only_here = std::all_of(endpoints.begin(), endpoints.end(), is_loopback) && !means_loopback(host);
  std::vector<Descriptor> listeners;
  int error = EADDRNOTAVAIL;
  const auto is_taken = [&] { return error == EADDRINUSE || error == EACCES; };
  const auto listen = [&](const Endpoint& endpoint) {
    Descriptor listener = listen_on(endpoint, error);
    if (listener.is_open()) listeners.push_back(std::move(listener));
  };
  for (const Endpoint& endpoint : endpoints) {
    if (!only_here && !is_taken()) listen(endpoint);
  }
  // None of them is this machine's.
  if (listeners.empty() && !is_taken()) {
    if (!only_here && is_listened_to(endpoints)) {
      throw DesyncError(
          format("rank 0 cannot listen at {}: that is not an address of this host, and a server listens there already. Is "
                 "another host rank 0, or does it have the same NODE_RANK?",
                 place));
    }
    for (const Endpoint& any_interface : look_up("0.0.0.0", port, AI_NUMERICHOST).endpoints) listen(any_interface);
  }
  if (listeners.empty() || error == EADDRINUSE) {
    throw DesyncError(format("rank 0 cannot listen at {}: {}{}", place, error_text(error),
                             error == EADDRINUSE ? ". Another program uses the port, or a second process is rank 0: give the "
                                                   "run another MASTER_PORT, or each host its own NODE_RANK"
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
      if (!is_ready_by(deadline, socket, POLLOUT)) return false;
    } else if (errno != EINTR) {
      throw ConnectionLost(error_text(errno));
    }
  }
  return true;
}

std::string receive_until(int socket, Deadline deadline) {
  std::array<char, kReceiveBytes> bytes;
  while (true) {
    const ssize_t received = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) return {bytes.data(), static_cast<std::size_t>(received)};
    if (received == 0) throw ConnectionLost("Connection closed by peer");
    if (errno == EAGAIN) {
      if (!is_ready_by(deadline, socket, POLLIN)) return {};
    } else if (errno != EINTR) {
      throw ConnectionLost(error_text(errno));
    }
  }
}

StoreClient::StoreClient(StoreAddress address, StoreMember member, Deadline deadline)
    : address_(std::move(address)), member_(std::move(member)) {
  const auto begin = Clock::now();
  std::string problem;
  for (auto pause = kFirstPause; !join_once(deadline, problem); pause = std::min(2 * pause, kLongestPause)) {
    if (Clock::now() + pause > deadline) {
      throw DesyncError(format("no answer from there for {} ({}): is rank 0 running, and can this host reach it?",
                               seconds_text(deadline - begin), problem));
    }
    std::this_thread::sleep_for(pause);
  }
}

bool StoreClient::join_once(Deadline deadline, std::string& problem) {
  const auto begin = Clock::now();
  try {
    reader_ = {};
    connection_ = address_.connect(deadline);
    const auto answer = exchange({StoreCall::kHello,
                                  member_.rank,
                                  {std::to_string(member_.world_size), std::to_string(member_.attempt)},
                                  {member_.token, member_.build, member_.process}},
                                 deadline);
    if (!answer) {
      throw DesyncError(format("the server there did not answer within {}: another program may use the port",
                               seconds_text(deadline - begin)));
    }
    if (answer->call == StoreCall::kDone) return true;
    const std::string refusal = "rank 0 refused: " + (answer->values.empty() ? "it gives no reason" : answer->values.front());
    if (answer->number != 1) throw DesyncError(refusal);
    problem = refusal;
    return false;
  } catch (const ConnectionLost& error) {
    // What the last, hurried try says is of less use than what was wrong before.
    if (problem.empty() || Clock::now() < deadline) problem = error.what();
    return false;
  }
}

StoreClient::Turn StoreClient::take_turn(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!free_.wait_until(lock, deadline, [this] { return !busy_; })) {
    throw DesyncError(at_store("another call of this rank, which waits, takes too long"));
  }
  busy_ = true;
  return Turn(this);
}

void StoreClient::EndTurn::operator()(StoreClient* client) const {
  const std::lock_guard lock(client->mutex_);
  client->busy_ = false;
  client->free_.notify_one();
}

StoreMessage StoreClient::ask(const StoreMessage& request, Deadline deadline) {
  const Turn turn = take_turn(deadline);
  if (broken_) std::rethrow_exception(broken_);
  try {
    auto answer = exchange(request, deadline);
    if (!answer) give_up(DesyncError(at_store("rank 0 has stopped answering: it is suspended, or the network is down")));
    if (answer->call == StoreCall::kRefused) {
      give_up(DesyncError(at_store(answer->values.empty() ? "rank 0 has ended it" : answer->values.front())));
    }
    return *std::move(answer);
  } catch (const ConnectionLost& error) {
    give_up(ConnectionLost(at_store(format("the connection to rank 0 is lost: {}", error.what()))));
  }
}

std::string StoreClient::at_store(const std::string& text) const { return "the run's store at " + address_.text + ": " + text; }

std::optional<StoreMessage> StoreClient::exchange(const StoreMessage& request, Deadline deadline) {
  const std::string bytes = encode(request);
  if (bytes.size() > kLargestMessage) {
    throw DesyncError(format("the run's store takes no message of {} bytes", bytes.size()));
  }
  if (!send_until(connection_.number(), bytes, deadline)) return std::nullopt;
  while (true) {
    try {
      if (auto answer = reader_.next(kLargestMessage)) return answer;
    } catch (const DesyncError& error) {
      throw DesyncError(format("the server there is not a rank of levin: {}", error.what()));
    }
    const std::string part = receive_until(connection_.number(), deadline);
    if (part.empty()) return std::nullopt;
    reader_.add(part);
  }
}

}  // namespace levin
