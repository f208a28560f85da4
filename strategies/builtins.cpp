#include "levin/strategies/builtins.h"

#include "levin/core/options/registry.h"
#include "levin/strategies/devices/accelerators.h"
#include "levin/strategies/gradients/ddp.h"
#include "levin/strategies/gradients/ddp_sharded.h"
#include "levin/strategies/gradients/single_device.h"

namespace levin {

namespace {

/// Lightning's short names of ddp with one option set.
void add_ddp_variant(Registry<Strategy>& registry, const char* name, bool find_unused_parameters) {
  ClassInfo info;
  info.name = name;
  info.help = std::string("ddp with find_unused_parameters: ") + (find_unused_parameters ? "true" : "false");
  info.complete = [](const Value& init_args) {
    detail::check_keys({}, init_args);
    return Value(Value::Map{});
  };
  registry.add(std::move(info), [find_unused_parameters](const Value&) {
    DdpOptions options;
    options.find_unused_parameters = find_unused_parameters;
    return std::make_shared<DdpStrategy>(options);
  });
}

}  // namespace

void register_builtin_strategies() {
  auto& registry = Registry<Strategy>::instance();
  registry.add<AutoStrategy>("auto", "ddp for several devices, hosts or ranks, else single_device");
  registry.add<DdpStrategy>("ddp", "One process a device, each with its own batches; gradients are averaged");
  add_ddp_variant(registry, "ddp_find_unused_parameters_true", true);
  add_ddp_variant(registry, "ddp_find_unused_parameters_false", false);
  registry.add<ShardedDdpStrategy>("ddp_sharded", "ddp in which each rank keeps a share of the optimizers' state (ZeRO-1)");
  registry.add<SingleDeviceStrategy>("single_device", "One process on one device");
  auto& accelerators = Registry<Accelerator>::instance();
  accelerators.add<CpuAccelerator>("auto", "The CPU");
  accelerators.add<CpuAccelerator>("cpu", "The CPU, which ranks share");
  accelerators.add<CudaAccelerator>("cuda", "NVIDIA's GPUs, one for each rank");
  accelerators.add<CudaAccelerator>("gpu", "Another name of cuda");
}

}  // namespace levin
