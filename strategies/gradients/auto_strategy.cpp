#include "levin/strategies/gradients/auto_strategy.h"

#include "levin/strategies/gradients/ddp.h"
#include "levin/strategies/launch/cluster_environment.h"

namespace levin {

std::shared_ptr<Strategy> AutoStrategy::resolve(const LaunchRequest& request) {
  const ClusterEnvironment environment = detect_cluster_environment();
  // A rank that is to be started again after a failure needs a launcher, as several do. One that was started asks no more for
  // the devices of all: some may be gone.
  const bool several = environment.kind == ClusterKind::kLevin || environment.world_size > 1 || request.max_restarts > 0 ||
                       request.num_nodes > 1 || request.ranks_per_host() > 1;
  return several ? std::make_shared<DdpStrategy>() : nullptr;
}

}  // namespace levin
