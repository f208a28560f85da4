#include "levin/strategies/join_ranks.h"

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/strategies/process_rank_group.h"
#include "levin/strategies/processes/cluster_environment.h"
#include "levin/strategies/processes/fork_server.h"
#include "levin/strategies/processes/launcher.h"

namespace levin {

namespace {

/// Starts the ranks when nobody else did; comes back in a rank only.
void start_ranks_if_needed(const ClusterEnvironment& environment, const LaunchRequest& request) {
  if (environment.kind == ClusterKind::kLevin || environment.world_size > 1) return;
  if (request.num_nodes > 1) {
    throw ConfigError(
        format("num_nodes: {} hosts need a launcher on each of them: start the program with torchrun, srun or mpirun",
               request.num_nodes));
  }
  const int ranks = request.ranks_per_host();
  if (ranks == 1) return;
  if (environment.kind == ClusterKind::kTorchrun) {
    throw ConfigError(
        format("devices: {} asked for, but torchrun started 1 rank (WORLD_SIZE=1): give it --nproc-per-node={}, or start "
               "without it",
               ranks, ranks));
  }
  launch_ranks(ranks);
}

void check_request(const ClusterEnvironment& environment, const LaunchRequest& request) {
  const int ranks = request.ranks_per_host() * request.num_nodes;
  if (request.devices.is_auto() || request.devices.is_all() || ranks == environment.world_size) return;
  throw ConfigError(format(
      "devices and num_nodes ask for {} ranks, but this process is rank {} of {} (started by {}): make both the same, or leave "
      "devices out",
      ranks, environment.rank, environment.world_size, cluster_kind_name(environment.kind)));
}

}  // namespace

Launched join_ranks(const LaunchRequest& request, const JoinOptions& options) {
  const std::shared_ptr<Accelerator> accelerator = request.accelerator.get();
  const ClusterEnvironment environment = detect_cluster_environment();
  start_ranks_if_needed(environment, request);
  ForkServer::instance().end();
  check_request(environment, request);
  const at::Device device = accelerator->choose(request.devices, environment.local_rank);
  ProcessWorld::Options world;
  world.control_group = options.control_group;
  if (accelerator->backend_name() != "gloo" && !options.gradients_over_gloo) world.own_backend = accelerator;
  world.timeouts.stall_report_seconds = request.stall_report_seconds;
  world.timeouts.timeout_seconds = options.timeout_seconds.value_or(request.timeout_seconds);
  return {std::make_shared<ProcessRankGroup>(ProcessWorld::join(environment, world)), accelerator, device};
}

}  // namespace levin
