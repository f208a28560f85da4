#include "levin/strategies/gradients/single_device.h"

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/launch/rank_process.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

LEVIN_REGISTER_(Strategy, SingleDeviceStrategy, "single_device", "One process on one device");

Launched SingleDeviceStrategy::join(const LaunchRequest& request) {
  ForkServer::instance().end();
  const ClusterEnvironment environment = detect_cluster_environment();
  if (environment.world_size > 1) {
    throw ConfigError(format("strategy single_device: {} started {} ranks; use strategy ddp (or auto)",
                             cluster_kind_name(environment.kind), environment.world_size));
  }
  if ((!request.devices.is_auto() && request.ranks_per_host() > 1) || request.num_nodes > 1) {
    throw ConfigError(
        "strategy single_device: one device of one host is used, but more are requested; use strategy ddp (or auto)");
  }
  if (request.max_restarts > 0) {
    throw ConfigError("strategy single_device: it has no launcher for restarts (max_restarts); use strategy auto or ddp");
  }
  const std::shared_ptr<Accelerator> accelerator = request.chosen_accelerator();
  return {std::make_shared<SingleRankGroup>(), accelerator, accelerator->choose(request.devices, 0)};
}

}  // namespace levin
