#include "levin/strategies/distributed/rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "levin/core/error.h"

namespace levin {

namespace {

constexpr double kLongestRendezvous = 300;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Differs between hosts, and between containers that do not share /dev/shm.
std::string host_identity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  struct stat shared_memory {};
  stat("/dev/shm", &shared_memory);
  return boot_id + " " + name.data() + " " + std::to_string(shared_memory.st_dev);
}

}  // namespace

c10::intrusive_ptr<c10d::Store> join_store(const ClusterEnvironment& environment, double timeout_seconds) {
  if (environment.world_size == 1) return c10::make_intrusive<c10d::HashStore>();
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0 && !environment.agent_store_key;
  options.numWorkers = static_cast<std::size_t>(environment.world_size);
  options.waitWorkers = false;
  options.timeout = milliseconds(std::min(timeout_seconds, kLongestRendezvous));
  options.masterListenFd = environment.store_listen_fd;
  // Programs that this rank starts must not keep the port open.
  if (environment.store_listen_fd) fcntl(*environment.store_listen_fd, F_SETFD, FD_CLOEXEC);
  try {
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(environment.master_address, options);
    return c10::make_intrusive<c10d::PrefixStore>(environment.agent_store_key.value_or("") + "/levin", store);
  } catch (const c10::Error& error) {
    throw DesyncError("rank " + std::to_string(environment.rank) + " of " + std::to_string(environment.world_size) +
                      " could not join the others at " + environment.master_address + ":" +
                      std::to_string(environment.master_port) + " (started by " + cluster_kind_name(environment.kind) +
                      "): " + error.what_without_backtrace());
  }
}

bool all_on_one_host(c10d::Store& store, const ClusterEnvironment& environment) {
  const std::string mine = host_identity();
  store.set("host/" + std::to_string(environment.rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  bool same = true;
  for (int rank = 0; rank < environment.world_size; ++rank) {
    const std::vector<std::uint8_t> other = store.get("host/" + std::to_string(rank));
    same &= std::string(other.begin(), other.end()) == mine;
  }
  return same;
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                    const ClusterEnvironment& environment, bool one_host,
                                                    double timeout_seconds) {
  auto options = c10d::ProcessGroupGloo::Options::create(milliseconds(timeout_seconds));
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (one_host) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(name, store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(own_store, environment.rank, environment.world_size, options);
}

}  // namespace levin
