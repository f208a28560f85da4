#include "levin/core/config/registry.h"
#include "levin/core/logger.h"

namespace {

struct FromPluginOptions {
  int volume = 5;
  static void declare(levin::OptionList<FromPluginOptions>& options) {
    options.add("volume", &FromPluginOptions::volume, "How loud").min(0);
  }
};

struct FromPlugin : levin::Logger {
  using Options = FromPluginOptions;
  explicit FromPlugin(Options) {}
  std::string name() const override { return "from_plugin"; }
};

LEVIN_REGISTER_LOGGER(FromPlugin, "Comes from a plug-in");

}  // namespace
