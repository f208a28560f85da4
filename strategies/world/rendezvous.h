#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/transport/gloo.h"

namespace levin {

class RunSegment;
class StoreServer;

/// The key-value store in which the ranks of a run find one another.
struct JoinedStore {
  std::shared_ptr<StoreServer> server;  ///< set where this process serves it
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Store> notes{};  ///< if torchrun's agent serves it: keys that all attempts of the run share
};

/// The limits of waits for other ranks.
struct RankTimeouts {
  double connect_seconds = 300;  ///< to find one another
  double wait_seconds = 1800;    ///< in a call, afterwards
};

/// Joins the run's store. Under levin's launcher it is reached over inherited sockets; else rank 0 serves it at the address of
/// MASTER_ADDR, only to clients with LEVIN_RUN_TOKEN if that is set; under torchrun it is its agent's. Ranks: all. Throws a
/// DesyncError that names the address and this rank when rank 0 or the agent cannot be reached within `timeout_seconds`, or
/// when ranks conflict: two have one number, or builds differ.
JoinedStore join_store(const ClusterEnvironment& environment, double timeout_seconds);

/// Gathers each rank's text under a name, by rank. Ranks: all.
std::vector<std::string> gather_in_store(c10d::Store& store, const ClusterEnvironment& environment, const std::string& name,
                                         const std::string& mine);

/// The names of the ranks' hosts, by rank: equal texts are one host. `launched`: of the ranks of this host's launcher, if there
/// are others; may be null. Launchers that share a machine count as separate hosts. Ranks: all. Throws a DesyncError that names
/// the ranks that do not come within the store's timeout.
std::vector<std::string> hosts_of_ranks(c10d::Store& store, const ClusterEnvironment& environment, const RunSegment* launched);

/// Gloo among the ranks of `environment`, which may be a renumbered subset of the run's. On one host it uses the loopback
/// interface; between hosts the one that GLOO_SOCKET_IFNAME names, or the one that leads to MASTER_ADDR. Ranks: all. `name`
/// distinguishes groups of one run. Its errors are those of GlooBackend.
c10::intrusive_ptr<GlooBackend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                  const ClusterEnvironment& environment, bool one_host,
                                                  const RankTimeouts& times);

}  // namespace levin
