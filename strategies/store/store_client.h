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

/// Listens at the addresses of `host` only, or, where none of them is this machine's own (as behind a router), or they cannot
/// be reached from elsewhere although the name is not "localhost", at all. Throws DesyncError: the port is taken, here or
/// where the address leads to. Looks the name up until the deadline.
std::vector<Descriptor> listen_at(const std::string& host, int port,
                                  Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30));
/// The address of this host's interface to another. "" when there is no route. Sends nothing.
std::string own_address_towards(const std::string& host, int port, Deadline deadline);
/// The next connection that was handed over on such a socket; not open when there is none now.
Descriptor take_handed_over(int socket);
/// "10.0.0.7:51234", or "this host".
std::string peer_text(int socket);

/// Sends all of it, or throws ConnectionLost. Nothing has been said in time: false.
bool send_until(int socket, std::string_view bytes, Deadline deadline);
/// What has arrived, at least a byte; empty when nothing has in time. Throws ConnectionLost.
std::string receive_until(int socket, Deadline deadline);

/// A rank that joins a run.
struct StoreMember {
  int rank = 0;
  int world_size = 1;
  std::string token{};    ///< what only the run's processes know; empty: nothing is asked for
  std::string build{};    ///< "levin 0.1.0, LibTorch 2.13.0": all ranks have the same
  std::string process{};  ///< distinguishes two processes with this rank: "4711 on apollo"
  int attempt = 0;        ///< how often the run has been started again
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
  /// The time in which one call has the connection.
  using Turn = std::unique_ptr<StoreClient, EndTurn>;
  /// Throws DesyncError when it does not come to have the connection until the deadline.
  Turn take_turn(Deadline deadline);
  /// The answer; nothing when there is none in time.
  std::optional<StoreMessage> exchange(const StoreMessage& request, Deadline deadline);
  /// False: what listens there has closed the connection, or nothing listens.
  bool join_once(Deadline deadline, std::string& problem);
  std::string at_store(const std::string& text) const;
  /// Throws the error, now and at every later call.
  template <class Failure>
  [[noreturn]] void give_up(const Failure& error) {
    // What comes later could be the answer to this call.
    broken_ = std::make_exception_ptr(error);
    connection_ = Descriptor();
    std::rethrow_exception(broken_);
  }

  StoreAddress address_;
  StoreMember member_;
  // No std::timed_mutex: ThreadSanitizer does not know how g++ 12 locks one.
  std::mutex mutex_;
  std::condition_variable free_;
  bool busy_ = false;  ///< a call is under way: the others wait for their turn, each until its own deadline
  Descriptor connection_;
  StoreMessageReader reader_;
  std::exception_ptr broken_;
};

}  // namespace levin
