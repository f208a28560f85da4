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

// ConnectionLost of functions that connect, send and receive says that nobody listens, or that who listened has closed the
// connection: a moment later it may be different. Its what() is a part of a sentence: "Connection refused".

/// Where a run's store can be reached.
struct StoreAddress {
  std::string text;                               ///< "127.0.0.1:29500", for errors
  std::function<Descriptor(Deadline)> connect{};  ///< one try; throws ConnectionLost, or DesyncError where another is no use
};

/// A store at a TCP port, between hosts.
StoreAddress tcp_address(const std::string& host, int port);
/// A store that is reached over one of two connected sockets that carry messages (SOCK_SEQPACKET), which stays the caller's: a
/// new connection is handed over to who has the other. So do the ranks of levin's launcher, who inherit them; only who has one
/// can use it.
StoreAddress inherited_address(int socket, const std::string& text = "the socket of levin's launcher");

/// Listens at the addresses of `host` only, or, where none of them is this machine's own (as behind a router), or they cannot
/// be reached from elsewhere although the name is not "localhost", at all. Throws DesyncError: the port is taken, here or
/// where the address leads to. Looks the name up until the deadline.
std::vector<Descriptor> listen_at(const std::string& host, int port,
                                  Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30));
/// The address of this host from which it reaches another: that of the interface to it. "" when there is no way. Sends nothing.
std::string own_address_towards(const std::string& host, int port, Deadline deadline);
/// The next connection that was handed over on such a socket; not open when there is none now.
Descriptor take_handed_over(int socket);
/// "10.0.0.7:51234", or "this host".
std::string peer_text(int socket);

/// Sends all of it, or throws ConnectionLost. Nothing has been said in time: false.
bool send_until(int socket, std::string_view bytes, Deadline deadline);
/// What has arrived, at least a byte; empty when nothing has in time. Throws ConnectionLost.
std::string receive_until(int socket, Deadline deadline);

/// Who asks for a place in a run.
struct StoreMember {
  int rank = 0;
  int world_size = 1;
  std::string token{};    ///< what only the run's processes know; empty: nothing is asked for
  std::string build{};    ///< "levin 0.1.0, LibTorch 2.13.0": all ranks have the same
  std::string process{};  ///< tells apart two processes that both say they are this rank: "4711 on apollo"
  int attempt = 0;        ///< how often the run has been started again
};

/// A rank's connection to the run's store. Every call has a deadline. Threading: any thread; one call at a time, others wait.
class StoreClient {
 public:
  /// Connects, again and again until the deadline while nobody listens yet. Throws DesyncError; its text says what is wrong
  /// with who listens there, and not where that is.
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
