#pragma once

#include "levin/core/base/fwd.h"
#include "levin/core/strategy.h"

namespace levin {

/// One process on one device, whose gradients are as they are. The name in YAML is "single_device".
class LEVIN_API SingleDeviceStrategy : public Strategy {
 public:
  std::string name() const override { return "single_device"; }
  void setup_module(Module&, bool) override {}

 protected:
  /// Throws ConfigError when several devices or hosts are asked for, or when a launcher made this process one of several ranks.
  Launched join(const LaunchRequest& request) override;
};

}  // namespace levin
