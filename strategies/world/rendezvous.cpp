#include "levin/strategies/world/rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <torch/version.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/version.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/store/call_thread.h"
#include "levin/strategies/store/store_client.h"
#include "levin/strategies/store/store_server.h"

namespace levin {

namespace {

using Bytes = std::vector<std::uint8_t>;
using Clock = std::chrono::steady_clock;

/// The server ends a wait in time, unless it has stopped working.
constexpr auto kServerGrace = std::chrono::seconds(2);
constexpr auto kForEver = std::chrono::hours(24 * 30);

std::string to_text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// c10d's value for no limit.
std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout) {
  return timeout == c10d::Store::kNoTimeout ? kForEver : timeout;
}

/// levin's own store, as LibTorch's groups use one. Every call ends by the timeout, also when rank 0 is stopped. Errors are
/// DesyncError.
class RunStore final : public c10d::Store {
 public:
  /// `server`: what serves the store, when this process does; it lives as long as this.
  RunStore(StoreAddress address, StoreMember member, std::shared_ptr<StoreServer> server, std::chrono::milliseconds timeout)
      : Store(timeout),
        server_(std::move(server)),
        client_(std::move(address), std::move(member), Clock::now() + limit_of(timeout)) {}

  /// Another connection.
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<RunStore>(client_.address(), client_.member(), server_, timeout_);
  }
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override { ask({StoreCall::kSet, 0, {key}, {to_text(value)}}); }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) override {
    return to_bytes(ask({StoreCall::kCompareSet, 0, {key}, {to_text(expected), to_text(wanted)}}).values.at(0));
  }
  Bytes get(const std::string& key) override { return multiGet({key}).at(0); }
  std::int64_t add(const std::string& key, std::int64_t number) override {
    return ask({StoreCall::kAdd, number, {key}, {}}).number;
  }
  bool deleteKey(const std::string& key) override { return ask({StoreCall::kRemove, 0, {key}, {}}).number != 0; }
  bool check(const std::vector<std::string>& keys) override { return ask({StoreCall::kCheck, 0, keys, {}}).number != 0; }
  std::int64_t getNumKeys() override { return ask({StoreCall::kCount}).number; }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    wait_for(StoreCall::kWait, keys, timeout);
  }
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    const StoreMessage answer = wait_for(StoreCall::kGet, keys, timeout_);
    if (answer.values.size() != keys.size()) {
      throw DesyncError(format("the run's store answered with {} values for {} keys: do all ranks run the same build of levin?",
                               answer.values.size(), keys.size()));
    }
    std::vector<Bytes> values;
    for (const std::string& value : answer.values) values.push_back(to_bytes(value));
    return values;
  }
  bool hasExtendedApi() const override { return true; }

 private:
  StoreMessage ask(const StoreMessage& request) { return client_.ask(request, Clock::now() + limit_of(timeout_)); }
  StoreMessage wait_for(StoreCall call, const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
    const auto limit = limit_of(timeout);
    StoreMessage answer = client_.ask({call, limit.count(), keys, {}}, Clock::now() + limit + kServerGrace);
    if (answer.call != StoreCall::kMissing) return answer;
    std::string text = format("waited {} s in the run's store for", limit.count() / 1000);
    for (std::size_t i = 0; i < answer.keys.size() && i < 3; ++i) text += format(" '{}'", answer.keys[i]);
    if (answer.keys.size() > 3) text += format(" and {} more", answer.keys.size() - 3);
    throw DesyncError(text);
  }

  std::shared_ptr<StoreServer> server_;
  StoreClient client_;
};

/// A store of another program, such as torchrun's agent, whose calls may wait forever for an answer: here each ends soon after
/// the timeout, with a DesyncError that names the address. An abandoned call delays later ones, each until its own limit.
class LimitedStore final : public c10d::Store {
  /// What the store's own limits, which say more, get to be first.
  static constexpr auto kStoreGrace = std::chrono::seconds(1);

  template <class Call>
  auto limited(std::chrono::milliseconds limit, const Call& call) const {
    auto result = thread_->call_until(Clock::now() + limit + kStoreGrace, call);
    if (!result) {
      throw DesyncError(format("the server at {} did not answer within {} s: it is stopped, or another program uses the port",
                               place_, limit.count() / 1000));
    }
    return *std::move(result);
  }
  template <class Result, class... Parameters, class... Arguments>
  Result ask(Result (Store::*call)(Parameters...), const Arguments&... arguments) const {
    return limited(timeout_, [=, store = store_] { return (*store.*call)(arguments...); });
  }
  /// The same for a call that gives nothing.
  template <class Call>
  void make(std::chrono::milliseconds limit, const Call& call) const {
    limited(limit, [call, store = store_] {
      call(*store);
      return true;
    });
  }

 public:
  using Connect = std::function<c10::intrusive_ptr<c10d::Store>()>;
  /// `place`: "127.0.0.1:29500".
  LimitedStore(const Connect& connect, std::string place, std::chrono::milliseconds timeout)
      : Store(timeout), place_(std::move(place)), store_(limited(timeout, connect)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<LimitedStore>([store = store_] { return store->clone(); }, place_, timeout_);
  }
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override {
    make(timeout_, [=](c10d::Store& store) { store.set(key, value); });
  }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) override {
    return limited(timeout_, [=, store = store_] { return store->compareSet(key, expected, wanted); });
  }
  Bytes get(const std::string& key) override { return ask(&Store::get, key); }
  std::int64_t add(const std::string& key, std::int64_t number) override { return ask(&Store::add, key, number); }
  bool deleteKey(const std::string& key) override { return ask(&Store::deleteKey, key); }
  bool check(const std::vector<std::string>& keys) override { return ask(&Store::check, keys); }
  std::int64_t getNumKeys() override { return ask(&Store::getNumKeys); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    make(timeout, [=](c10d::Store& store) { store.wait(keys, timeout); });
  }
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override { return ask(&Store::multiGet, keys); }
  bool hasExtendedApi() const override { return store_->hasExtendedApi(); }
  void setTimeout(const std::chrono::milliseconds& timeout) override {
    Store::setTimeout(timeout);
    store_->setTimeout(timeout);
  }

 private:
  std::string place_;
  std::unique_ptr<CallThread> thread_ = std::make_unique<CallThread>();  ///< makes every call to store_
  c10::intrusive_ptr<c10d::Store> store_;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Differs between hosts, and between containers that do not share /dev/shm.
std::string host_identity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  struct stat shared_memory {};
  stat("/dev/shm", &shared_memory);
  // A process in its own network namespace counts as a host: its loopback leads nowhere else.
  struct stat network {};
  stat("/proc/self/ns/net", &network);
  return format("{} {} {} {}", boot_id, host_name(), shared_memory.st_dev, network.st_ino);
}

/// Under which ranks say what they call their hosts.
constexpr const char* kHosts = "host";

std::string key_of(const std::string& name, int rank) { return format("{}/{}", name, rank); }

std::string place_of(const ClusterEnvironment& environment) {
  return environment.store_fd ? "the socket of levin's launcher"
                              : format("{}:{}", environment.master_address, environment.master_port);
}

/// torchrun's own, whose protocol is LibTorch's.
JoinedStore join_agent_store(const ClusterEnvironment& environment, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(environment.master_port);
  options.numWorkers = static_cast<std::size_t>(environment.world_size);
  options.waitWorkers = false;
  options.timeout = timeout;
  const auto connect = [address = environment.master_address, options]() -> c10::intrusive_ptr<c10d::Store> {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  };
  return {nullptr, c10::make_intrusive<LimitedStore>(connect, place_of(environment), timeout)};
}

/// levin's own, which rank 0 serves.
JoinedStore join_run_store(const ClusterEnvironment& environment, std::chrono::milliseconds timeout) {
  const std::string token = process_environment("LEVIN_RUN_TOKEN").value_or("");
  StoreAddress address = environment.store_fd ? inherited_address(*environment.store_fd)
                                              : tcp_address(environment.master_address, environment.master_port);
  std::shared_ptr<StoreServer> server;
  const StoreMember member{.rank = environment.rank,
                           .world_size = environment.world_size,
                           .token = token,
                           .build = format("levin {}, LibTorch {}", kVersion, TORCH_VERSION),
                           .process = format("process {} on {}", getpid(), host_name()),
                           .attempt = environment.restarts};
  if (environment.rank == 0) {
    std::vector<Descriptor> listeners;
    Descriptor inherited;
    if (environment.store_fd) {
      // The environment's own stays, to join again after an error.
      inherited = Descriptor(fcntl(*environment.store_fd, F_DUPFD_CLOEXEC, 0));
    } else {
      listeners = listen_at(environment.master_address, environment.master_port, std::chrono::steady_clock::now() + timeout);
    }
    const StoreServer::Settings settings{
        .world_size = member.world_size, .token = token, .build = member.build, .attempt = member.attempt};
    server = std::make_shared<StoreServer>(settings, std::move(listeners), std::move(inherited));
    address = server->address();
  }
  return {server, c10::make_intrusive<RunStore>(std::move(address), member, server, timeout)};
}

/// "rank 1 of host 1, rank 3"; empty when none is missing.
std::string missing_ranks(c10d::Store& store, const ClusterEnvironment& environment) {
  const int on_host = environment.local_world_size.value_or(environment.world_size);
  std::vector<std::string> missing;
  for (int rank = 0; rank < environment.world_size; ++rank) {
    if (store.check({key_of(kHosts, rank)})) continue;
    const bool several_hosts = on_host < environment.world_size;
    missing.push_back(several_hosts ? format("rank {} of host {}", rank, rank / on_host) : format("rank {}", rank));
  }
  return join(missing);
}

}  // namespace

JoinedStore join_store(const ClusterEnvironment& environment, double timeout_seconds) {
  // Programs that this rank starts must not keep it open.
  if (environment.store_fd) fcntl(*environment.store_fd, F_SETFD, FD_CLOEXEC);
  if (environment.world_size == 1) return {nullptr, c10::make_intrusive<c10d::HashStore>()};
  const auto timeout = milliseconds(timeout_seconds);
  try {
    JoinedStore joined =
        environment.agent_store_key ? join_agent_store(environment, timeout) : join_run_store(environment, timeout);
    if (environment.agent_store_key) joined.notes = c10::make_intrusive<c10d::PrefixStore>("/levin-notes", joined.store);
    joined.store = c10::make_intrusive<c10d::PrefixStore>(environment.agent_store_key.value_or("") + "/levin", joined.store);
    return joined;
  } catch (const std::exception& error) {
    throw DesyncError(format("rank {} of {} could not join the others at {} (started by {}): {}", environment.rank,
                             environment.world_size, place_of(environment), cluster_kind_name(environment.kind),
                             error_text(error)));
  }
}

std::vector<std::string> gather_in_store(c10d::Store& store, const ClusterEnvironment& environment, const std::string& name,
                                         const std::string& mine) {
  store.set(key_of(name, environment.rank), mine);
  std::vector<std::string> keys;
  for (int rank = 0; rank < environment.world_size; ++rank) keys.push_back(key_of(name, rank));
  std::vector<std::string> all;
  for (const Bytes& text : store.multiGet(keys)) all.push_back(to_text(text));
  return all;
}

std::vector<std::string> hosts_of_ranks(c10d::Store& store, const ClusterEnvironment& environment, const RunSegment* launched) {
  std::string mine = host_identity();
  if (launched != nullptr) mine += format(" ranks {} to {}", launched->first_rank(), launched->end_rank() - 1);
  try {
    return gather_in_store(store, environment, kHosts, mine);
  } catch (const std::exception&) {
    const std::string missing = missing_ranks(store, environment);
    if (missing.empty()) throw;
    throw DesyncError(
        format("{} did not come within {} s (connect_timeout_seconds)", missing, store.getTimeout().count() / 1000));
  }
}

c10::intrusive_ptr<GlooBackend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                  const ClusterEnvironment& environment, bool one_host,
                                                  const RankTimeouts& times) {
  const auto connect_timeout = milliseconds(times.connect_seconds);
  auto options = c10d::ProcessGroupGloo::Options::create(connect_timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (one_host) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else {
    // The host's own name may lead to a loopback address, or to an interface that other hosts do not see.
    const std::string address = own_address_towards(environment.master_address, environment.master_port,
                                                    std::chrono::steady_clock::now() + connect_timeout);
    options->devices.push_back(address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                                               : c10d::ProcessGroupGloo::createDeviceForHostname(address));
  }
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(name, store);
  auto gloo = call_gloo([&] {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(own_store, environment.rank, environment.world_size, options);
  });
  gloo->setTimeout(milliseconds(times.wait_seconds));
  return c10::make_intrusive<GlooBackend>(std::move(gloo));
}

}  // namespace levin
