#include "levin/strategies/world/join_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/launch/launcher.h"
#include "levin/strategies/launch/rank_process.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

namespace {

/// Where this host stands among those of the run.
LaunchPlan plan_for(const LaunchRequest& request) {
  LaunchPlan plan{.local_ranks = request.ranks_per_host(), .hosts = request.num_nodes, .max_restarts = request.max_restarts};
  plan.min_devices = request.min_devices;
  plan.host = detect_node_rank(request.num_nodes, plan.local_ranks);
  if (plan.min_devices && *plan.min_devices > plan.local_ranks) {
    throw ConfigError(format("min_devices: {} is above devices, which are {}", *plan.min_devices, plan.local_ranks));
  }
  return plan;
}

[[noreturn]] void throw_not_permitted(const LaunchPlan& plan) {
  const std::string wish = plan.hosts > 1         ? format("num_nodes: {}", plan.hosts)
                           : plan.local_ranks > 1 ? format("devices: {}", plan.local_ranks)
                                                  : format("max_restarts: {}", plan.max_restarts);
  throw MisuseError(wish +
                    ": levin starts ranks by running the program again from its main(), which this program has not permitted. "
                    "Pass the work of main() to levin::run_main(), or this run to levin::launch(); or start the program with "
                    "torchrun, srun or mpirun, or the run with `levin fit`. See docs/embedding.md.");
}

/// Starts the ranks unless another launcher did; returns only in a rank.
void start_ranks_if_needed(const ClusterEnvironment& environment, const LaunchRequest& request) {
  if (environment.kind == ClusterKind::kLevin || environment.world_size > 1) return;
  const LaunchPlan plan = plan_for(request);
  const bool is_torchrun = environment.kind == ClusterKind::kTorchrun;
  if (is_torchrun && request.devices.is_auto() && plan.hosts == 1) return;
  if (plan.local_ranks * plan.hosts == 1 && (plan.max_restarts == 0 || is_torchrun)) return;
  if (is_torchrun) {
    throw ConfigError(
        format("devices: {} requested, but torchrun started 1 rank (WORLD_SIZE=1): give it --nproc-per-node={}, or start "
               "without it",
               plan.local_ranks, plan.local_ranks));
  }
  LaunchPermit* const permit = LaunchPermit::current();
  if (permit == nullptr) {
    if (!OwnProcess::is_one()) throw_not_permitted(plan);
    launch_ranks(plan);
  }
  LaunchPlan permitted = plan;
  permitted.call = permit->call();
  const RunEnd end = run_ranks(permitted);
  ForkServer::instance().end();
  permit->end_with({end.status, end.failure ? end.failure->str() : ""});
}

/// The devices that this rank chooses among. Where some are gone since the run began, its index is not that of its rank.
at::Device choose_device(const Accelerator& accelerator, const LaunchRequest& request, const ClusterEnvironment& environment) {
  if (environment.restarts == 0 || environment.kind != ClusterKind::kLevin) {
    return accelerator.choose(request.devices, environment.local_rank);
  }
  try {
    const std::vector<int>& indices = request.devices.indices();
    const auto place = static_cast<std::size_t>(environment.device);
    return accelerator.choose(Devices(std::vector{indices.empty() ? environment.device : indices.at(place)}), 0);
  } catch (const ConfigError&) {
    // The launcher may continue without it.
    const auto segment = RunSegment::attach(*environment.shared_memory_fd);
    segment->slot(environment.rank).device_missing.store(1, std::memory_order_release);
    throw;
  }
}

void check_request(const ClusterEnvironment& environment, const LaunchRequest& request) {
  // Of devices that were there once, some may be gone: the launcher knows.
  if (environment.kind == ClusterKind::kLevin && environment.restarts > 0) return;
  const int ranks = request.ranks_per_host() * request.num_nodes;
  if (request.devices.is_auto() || request.devices.is_all() || ranks == environment.world_size) return;
  throw ConfigError(format(
      "devices and num_nodes ask for {} ranks, but this process is rank {} of {} (started by {}): make both the same, or leave "
      "devices out",
      ranks, environment.rank, environment.world_size, cluster_kind_name(environment.kind)));
}

/// Before any rank is started.
void check_transport(const Accelerator& accelerator, GradientTransport gradients) {
  if (gradients == GradientTransport::kNccl && accelerator.backend_name() != "nccl") {
    throw ConfigError("process_group_backend: nccl needs GPUs; use gloo, or leave it out");
  }
  if (gradients == GradientTransport::kSharedMemory && accelerator.device_type() != at::kCPU) {
    throw ConfigError("process_group_backend: shared_memory is for gradients on the CPU; leave it out");
  }
}

/// levin's launcher and torchrun say how many threads a rank has. Others, and people, let LibTorch take each core that the rank
/// may run on, which ranks of one host share.
void take_share_of_cores(const ClusterEnvironment& environment, const HostCores& host) {
  if (environment.kind == ClusterKind::kLevin || host.ranks == 1 || std::getenv("OMP_NUM_THREADS") != nullptr) return;
  at::set_num_threads(std::min(at::get_num_threads(), host.share));
}

}  // namespace

Launched join_ranks(const LaunchRequest& request, const JoinOptions& options) {
  const std::shared_ptr<Accelerator> accelerator = request.chosen_accelerator();
  check_transport(*accelerator, options.gradients);
  const ClusterEnvironment environment = detect_cluster_environment();
  start_ranks_if_needed(environment, request);
  ForkServer::instance().end();
  check_request(environment, request);
  const at::Device device = choose_device(*accelerator, request, environment);
  const bool has_own_backend = accelerator->backend_name() != "gloo" && options.gradients != GradientTransport::kGloo;
  const ProcessWorld::Options world{
      .control_group = options.control_group,
      .gradients = options.gradients,
      .own_backend = has_own_backend ? accelerator : nullptr,
      .device_type = accelerator->device_type(),
      .timeouts = {request.stall_report_seconds, options.timeout_seconds.value_or(request.timeout_seconds)},
      .connect_timeout_seconds = request.connect_timeout_seconds};
  const bool is_first = !ProcessWorld::is_joined();
  const auto joined = ProcessWorld::join(environment, world);
  if (is_first) take_share_of_cores(environment, joined->host_cores());
  return {joined, accelerator, device};
}

}  // namespace levin
