#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "levin/strategies/processes/cluster_environment.h"

namespace levin {

/// The key-value store in which the ranks of a run find one another: served by rank 0, or by torchrun's agent. Ranks: all.
/// Throws DesyncError when the ranks do not come together in time.
c10::intrusive_ptr<c10d::Store> join_store(const ClusterEnvironment& environment, double timeout_seconds);

/// Which ranks run on this rank's host, told by comparing what hosts say of themselves. Ranks: all.
bool all_on_one_host(c10d::Store& store, const ClusterEnvironment& environment);

/// Gloo among all ranks. On one host it uses the loopback interface; between hosts the one that GLOO_SOCKET_IFNAME names, or
/// the one that the host's name resolves to. Ranks: all. `name` keeps several groups of one run apart.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                    const ClusterEnvironment& environment, bool one_host,
                                                    double timeout_seconds);

}  // namespace levin
