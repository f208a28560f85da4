#pragma once

#include "levin/strategies/gradients/single_device.h"

namespace levin {

/// Chooses when the run is known: "ddp" when several devices or hosts are asked for or a launcher started several ranks; else
/// it is itself, a single device. The name in YAML is "auto".
class AutoStrategy final : public SingleDeviceStrategy {
 public:
  /// Throws ConfigError as detect_cluster_environment and LaunchRequest::ranks_per_host do.
  std::shared_ptr<Strategy> resolve(const LaunchRequest& request) override;
};

}  // namespace levin
