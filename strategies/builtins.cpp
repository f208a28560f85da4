#include "levin/strategies/builtins.h"

#include "levin/core/options/registry.h"
#include "levin/strategies/auto_strategy.h"
#include "levin/strategies/single_device.h"

namespace levin {

void register_builtin_strategies() {
  auto& registry = Registry<Strategy>::instance();
  registry.add<AutoStrategy>("auto", "ddp for several devices, hosts or ranks, else single_device");
  registry.add<SingleDeviceStrategy>("single_device", "One process on one device");
}

}  // namespace levin
