#pragma once

#include "levin/core/base/fwd.h"
#include "levin/core/strategy.h"

namespace levin {

/// One process on one device; gradients stay unchanged. In YAML: "single_device".
class LEVIN_API SingleDeviceStrategy : public Strategy {
 public:
  std::string name() const override { return "single_device"; }
  void setup_module(Module&, bool) override {}

 protected:
  /// Throws ConfigError when several devices or hosts are requested, or when a launcher made this process one of several ranks.
  Launched join(const LaunchRequest& request) override;
};

}  // namespace levin
