#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "levin/strategies/store/store_client.h"
#include "levin/strategies/store/store_message.h"

namespace levin {

/// The run's store: serves the ranks from a thread of rank 0. Nothing that a connection says is believed before it has said
/// that it is of this run, in a short message, within seconds; until then it costs a kilobyte, and there are at most
/// kMostUnknown of them. A connection that is not of this run is dropped, with a line on stderr for the first of them.
class StoreServer {
 public:
  /// Connections that have not identified themselves.
  static constexpr std::size_t kMostUnknown = 64;
  struct Settings {
    int world_size = 1;
    std::string token{};                                           ///< what a connection must know; empty: nothing
    std::string build{};                                           ///< StoreMember::build of this process
    int attempt = 0;                                               ///< of the run
    std::chrono::milliseconds patience{5000};                      ///< the time for a connection to identify itself
    std::function<void(const std::string&)> print = print_report;  ///< takes what is said of strangers
  };

  /// Serves connections at `listeners`, and those that are passed on `inherited` (see inherited_address()), if there is one.
  StoreServer(Settings settings, std::vector<Descriptor> listeners, Descriptor inherited);
  ~StoreServer();

  /// How this process itself reaches it. The server outlives what connects here.
  StoreAddress address() const { return inherited_address(own_clients_.number(), "this process"); }
  /// Ends a run before its start: clients that wait, or call later, get the reason. Returns when they have got it and are gone,
  /// or after a second.
  void end(const std::string& reason);

 private:
  /// Where connections come.
  struct Door {
    Descriptor socket;
    bool hands_over = false;  ///< see inherited_address()
  };
  struct Connection;
  using Connections = std::list<Connection>;

  void run();
  void poll_once();
  Deadline next_deadline() const;
  /// Lets end() return once all are notified.
  void notify_end();
  void accept_new(Door& door);
  void welcome(Descriptor connection);
  /// False: the connection is to be closed.
  bool serve(Connection& connection, short events);
  void receive(Connection& connection);
  void handle(Connection& connection, StoreMessage message);
  void greet(Connection& connection, const StoreMessage& hello);
  /// Why the run cannot be with this member of it; empty when it can. It then ends for all.
  std::string contradiction(std::size_t rank, const std::string& peer, const std::string& build,
                            const std::string& process) const;
  /// Answers waits whose keys exist, or whose time is over.
  void answer_waits();
  void answer(Connection& connection, const StoreMessage& message);
  /// What to say to one that waits; nothing while its keys may still come.
  std::optional<StoreMessage> reply_to_wait(Connection& connection) const;
  static void send_rest(Connection& connection);
  void note_stranger(const Connection& connection, const std::string& why);
  void wake() const;

  Settings settings_;
  std::vector<Door> doors_;
  Descriptor own_clients_;  ///< over which this process hands its own connections over
  Descriptor wake_;
  StoreTable table_;
  Connections connections_;
  std::vector<std::string> process_of_;  ///< by rank: the first to come
  bool had_stranger_ = false;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable notified_;
  std::string end_reason_;
  bool all_notified_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace levin
