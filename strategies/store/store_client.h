#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/files/descriptor.h"
#include "levin/strategies/store/store_message.h"

namespace levin {

using Deadline = std::chrono::steady_clock::time_point;

// ConnectionLost of functions that connect, send and receive means that no server listens, or that it has closed the
// connection: a retry may succeed. Its what() is a part of a sentence: "Connection refused".

/// Where a run's store can be reached.
struct StoreAddress {
  std::string text;                               ///< "127.0.0.1:29500", for errors
  std::function<Descriptor(Deadline)> connect{};  ///< one try; throws ConnectionLost, or DesyncError where a retry is useless
};

/// A store at a TCP port, between hosts.
StoreAddress tcp_address(const std::string& host, int port);
/// A store that is reached over one of two connected sockets that carry messages (SOCK_SEQPACKET), which the caller still owns:
/// a new connection is passed to the holder of the other. Ranks of levin's launcher inherit such sockets; no other process can
/// use them.
StoreAddress inherited_address(int socket, const std::string& text = "the socket of levin's launcher");

/// Listens only at the addresses of `host`; at all addresses if none of them is this machine's (as behind a router), or if they
/// are local although the name is not "localhost". Throws DesyncError when the port is taken, here or at the address. Looks the
/// name up until the deadline.
std::vector<Descriptor> listen_at(const std::string& host, int port,
                                  Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30));
/// The address of this host's interface to another. "" when there is no route. Sends nothing.
std::string own_address_towards(const std::string& host, int port, Deadline deadline);
/// The next connection passed on such a socket; not open: none now.
Descriptor take_handed_over(int socket);
/// "10.0.0.7:51234", or "this host".
std::string peer_text(int socket);

/// Sends all of it, or throws ConnectionLost. False when it has not finished in time.
bool send_until(int socket, std::string_view bytes, Deadline deadline);
/// The received bytes, at least one; empty when none arrives in time. Throws ConnectionLost.
std::string receive_until(int socket, Deadline deadline);

/// A rank that joins a run.
struct StoreMember {
  int rank = 0;
  int world_size = 1;
  std::string token{};    ///< the secret of the run's processes; empty: none is required
  std::string build{};    ///< "levin 0.1.0, LibTorch 2.13.0": all ranks have the same
  std::string process{};  ///< distinguishes two processes with this rank: "4711 on apollo"
  int attempt = 0;        ///< the number of restarts
};

/// A rank's connection to the run's store. Every call has a deadline. Threading: any thread; one call at a time, others wait.
class StoreClient {
 public:
  /// Connects, with retries until the deadline while no server listens. Throws a DesyncError that describes the problem of the
  /// server, without its address.
  StoreClient(StoreAddress address, StoreMember member, Deadline deadline);

  /// The answer. Throws DesyncError when there is none by the deadline, the connection is lost, or the run has ended.
  StoreMessage ask(const StoreMessage& request, Deadline deadline);

  const StoreAddress& address() const { return address_; }
  const StoreMember& member() const { return member_; }

 private:
  struct EndTurn {
    void operator()(StoreClient* client) const;
  };
  /// The scope in which one call has the connection.
  using Turn = std::unique_ptr<StoreClient, EndTurn>;
  /// Throws DesyncError when it does not get the connection by the deadline.
  Turn take_turn(Deadline deadline);
  /// The answer; unset: none in time.
  std::optional<StoreMessage> exchange(const StoreMessage& request, Deadline deadline);
  /// False: the server has closed the connection, or there is none.
  bool join_once(Deadline deadline, std::string& problem);
  std::string at_store(const std::string& text) const;
  /// Throws the error, now and at every later call.
  template <class Failure>
  [[noreturn]] void give_up(const Failure& error) {
    // Later bytes could be the answer to this call.
    broken_ = std::make_exception_ptr(error);
    connection_ = Descriptor();
    std::rethrow_exception(broken_);
  }

  StoreAddress address_;
  StoreMember member_;
  // No std::timed_mutex: ThreadSanitizer does not know how g++ 12 locks one.
  std::mutex mutex_;
  std::condition_variable free_;
  bool busy_ = false;  ///< a call is running: others wait for their turn, each until its own deadline
  Descriptor connection_;
  StoreMessageReader reader_;
  std::exception_ptr broken_;
};

}  // namespace levin
