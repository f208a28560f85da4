#include "levin/strategies/auto_strategy.h"

#include "levin/strategies/ddp.h"
#include "levin/strategies/processes/cluster_environment.h"

namespace levin {

std::shared_ptr<Strategy> AutoStrategy::resolve(const LaunchRequest& request) {
  const bool several = request.ranks_per_host() > 1 || request.num_nodes > 1 || detect_cluster_environment().world_size > 1;
  return several ? std::make_shared<DdpStrategy>() : nullptr;
}

}  // namespace levin
