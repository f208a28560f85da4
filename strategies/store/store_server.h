#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "levin/strategies/store/store_client.h"
#include "levin/strategies/store/store_table.h"

namespace levin {

/// The run's store: serves the ranks from a thread of rank 0. Nothing that a connection says is believed before it has said
/// that it is of this run, in a short message, within seconds; until then it costs a kilobyte, and there are at most
/// kMostUnknown of them. A connection that is not of this run is dropped, with a line on stderr for the first, tenth, hundredth
/// … of them.
class StoreServer {
 public:
  struct Settings {
    int world_size = 1;
    std::string token{};                              ///< what a connection must know; empty: nothing
    std::string build{};                              ///< StoreMember::build of this process
    int attempt = 0;                                  ///< of the run
    std::chrono::milliseconds patience{5000};         ///< how long a connection may keep to itself who it is
    std::function<void(const std::string&)> print{};  ///< takes what is said of strangers; default: a line on stderr
  };

  /// Serves whoever connects at `listeners`, and whose connection comes over `inherited` (see StoreSockets), where there is
  /// one.
  StoreServer(Settings settings, std::vector<Descriptor> listeners, Descriptor inherited);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// How this process itself reaches it. The server outlives what connects here.
  StoreAddress address();
  /// The run is over before it has begun: whoever waits, or asks later, is told why. Returns when they have been told and are
  /// gone, or after a second.
  void end(const std::string& reason);

 private:
  struct Connection;
  using Connections = std::list<Connection>;

  void run();
  void poll_once();
  Deadline next_deadline() const;
  void accept_new(int listener);
  void welcome(Descriptor connection);
  void drop(Connections::iterator connection);
  /// False: the connection is to be closed.
  bool serve(Connection& connection, short events);
  void receive(Connection& connection);
  void handle(Connection& connection, StoreMessage message);
  void greet(Connection& connection, const StoreMessage& hello);
  /// Why the run cannot be with this member of it; empty when it can. It then ends for all.
  std::string contradiction(std::size_t rank, const std::string& peer, const std::string& build,
                            const std::string& process) const;
  void begin_wait(Connection& connection, StoreMessage request);
  /// Answers those whose keys are there, or whose time is over.
  void look_after_waits();
  void answer(Connection& connection, const StoreMessage& message);
  /// What to say to one that waits; nothing while its keys may still come.
  std::optional<StoreMessage> reply_to_wait(Connection& connection) const;
  static void send_rest(Connection& connection);
  void note_stranger(const Connection& connection, const std::string& why);
  void wake() const;

  Settings settings_;
  std::vector<Descriptor> listeners_;
  Descriptor inherited_;
  Descriptor wake_;
  StoreTable table_;
  Connections connections_;
  std::vector<int> connections_of_;      ///< by rank
  std::vector<std::string> process_of_;  ///< by rank: who came first
  Deadline no_accept_before_{};          ///< no descriptors are left
  std::int64_t strangers_ = 0;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable told_;
  std::vector<Descriptor> own_;  ///< connections of this process that have not been taken in yet
  std::string end_reason_;
  bool all_told_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace levin
