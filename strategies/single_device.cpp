#include "levin/strategies/single_device.h"

#include "levin/core/base/error_text.h"
#include "levin/core/error.h"
#include "levin/core/module.h"
#include "levin/strategies/accelerator.h"
#include "levin/strategies/processes/cluster_environment.h"
#include "levin/strategies/processes/error_file.h"
#include "levin/strategies/processes/fork_server.h"
#include "levin/strategies/reduce_op.h"

namespace levin {

void SingleDeviceStrategy::launch(const LaunchRequest& request) {
  ForkServer::instance().end();
  const ClusterEnvironment environment = detect_cluster_environment();
  if (environment.world_size > 1) {
    throw ConfigError("strategy single_device: " + std::string(cluster_kind_name(environment.kind)) + " started " +
                      std::to_string(environment.world_size) + " ranks; use strategy ddp (or auto)");
  }
  if (ranks_per_host(request) > 1 || request.num_nodes > 1) {
    throw ConfigError(
        "strategy single_device: one device of one host is used, but more are asked for; use strategy ddp (or auto)");
  }
  device_ = select_device(request, 0);
}

void SingleDeviceStrategy::setup_module(Module&, bool) {}
void SingleDeviceStrategy::before_backward(const at::Tensor&, bool) {}
void SingleDeviceStrategy::backward_without_batch(Module&) {}
void SingleDeviceStrategy::synchronize_buffers(Module&) {}
void SingleDeviceStrategy::post_whereabouts(const Whereabouts&) {}

at::Tensor SingleDeviceStrategy::all_gather(const at::Tensor& tensor, SourceLocation) {
  return tensor.detach().unsqueeze(0).clone();
}

at::Tensor SingleDeviceStrategy::all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) {
  check_reducible(parse_reduce_op(op, where), tensor, where);
  return tensor.detach().clone();
}

at::Tensor SingleDeviceStrategy::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, 1, where);
  return tensor.detach().clone();
}

void SingleDeviceStrategy::barrier(const std::string&, SourceLocation) {}

void SingleDeviceStrategy::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  write_error_file({0, whereabouts, error_text(error)});
}

void SingleDeviceStrategy::teardown() noexcept {}

}  // namespace levin
