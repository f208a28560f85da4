#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/store/call_thread.h"
#include "levin/strategies/store/store_client.h"
#include "levin/strategies/store/store_server.h"
#include "levin/strategies/transport/gloo.h"

namespace levin {

/// levin's own store, as LibTorch's groups use one. Every call ends by the timeout, also when rank 0 is stopped. Errors are
/// DesyncError.
class RunStore final : public c10d::Store {
 public:
  /// `server`: what serves the store, when this process does; it lives as long as this.
  RunStore(StoreAddress address, StoreMember member, std::shared_ptr<StoreServer> server, std::chrono::milliseconds timeout);

  /// Another connection.
  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& wanted) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t number) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  bool hasExtendedApi() const override { return true; }

 private:
  StoreMessage ask(const StoreMessage& request);
  StoreMessage wait_for(StoreCall call, const std::vector<std::string>& keys, std::chrono::milliseconds timeout);

  std::shared_ptr<StoreServer> server_;
  StoreClient client_;
};

/// A store of another program, such as torchrun's agent, whose calls may wait for ever for an answer: here each ends by the
/// timeout and a little, with a DesyncError that names the place. A call that was given up keeps later ones waiting, each until
/// its own limit.
class LimitedStore final : public c10d::Store {
 public:
  using Connect = std::function<c10::intrusive_ptr<c10d::Store>()>;
  /// `place`: "127.0.0.1:29500".
  LimitedStore(const Connect& connect, std::string place, std::chrono::milliseconds timeout);

  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& wanted) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t number) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  bool hasExtendedApi() const override { return store_->hasExtendedApi(); }
  void setTimeout(const std::chrono::milliseconds& timeout) override;

 private:
  template <class Call>
  auto limited(std::chrono::milliseconds limit, const Call& call) const;

  std::string place_;
  std::unique_ptr<CallThread> thread_ = std::make_unique<CallThread>();  ///< makes every call to store_
  c10::intrusive_ptr<c10d::Store> store_;
};

class RunSegment;
class StoreServer;

/// The key-value store in which the ranks of a run find one another.
struct JoinedStore {
  std::shared_ptr<StoreServer> server;  ///< set where this process serves it
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Store> notes{};  ///< where torchrun's agent serves it: keys that all attempts of the run share
};

/// How long ranks wait for one another.
struct MeetingTimes {
  double connect_seconds = 300;  ///< to find one another
  double wait_seconds = 1800;    ///< in a call, afterwards
};

/// Joins the run's store. Under levin's launcher it is reached over inherited sockets; else rank 0 serves it at the address of
/// MASTER_ADDR, to whom knows LEVIN_RUN_TOKEN, where that is set; under torchrun it is its agent's. Ranks: all.
/// Throws DesyncError, naming the place and this rank, when rank 0 or the agent cannot be reached within `timeout_seconds`,
/// or when ranks contradict one another: two that are the same, or different builds.
JoinedStore join_store(const ClusterEnvironment& environment, double timeout_seconds);

/// What each rank calls the host that it runs on, by rank: equal texts are one host. `launched`: of the ranks that this host's
/// launcher has started, where there are others; may be null. Launchers that share a machine are a host each. Ranks: all.
/// Throws DesyncError, naming them, when ranks do not come within the store's timeout.
std::vector<std::string> hosts_of_ranks(c10d::Store& store, const ClusterEnvironment& environment, const RunSegment* launched);

/// Gloo among the ranks of `environment`, which may be some of the run's, numbered anew. On one host it uses the loopback
/// interface; between hosts the one that GLOO_SOCKET_IFNAME names, or the one that leads to MASTER_ADDR. Ranks: all. `name`
/// keeps several groups of one run apart. Its errors are those of GlooBackend.
c10::intrusive_ptr<GlooBackend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                  const ClusterEnvironment& environment, bool one_host,
                                                  const MeetingTimes& times);

}  // namespace levin
