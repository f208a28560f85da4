#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <string>
#include <vector>

namespace levin {

/// Exchanges device tensors through host memory, for a kind of device without its own backend. A call waits for the device, and
/// returns when the copies back are queued on the current stream. Errors are those of the backend for the CPU.
class HostCopyBackend final : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  /// `on_host`: among the same ranks.
  explicit HostCopyBackend(c10::intrusive_ptr<c10d::Backend> on_host);

  const std::string getBackendName() const override { return on_host_->getBackendName(); }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allgather(std::vector<Tensors>& all, Tensors& mine, const c10d::AllgatherOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Backend> on_host_;
};

}  // namespace levin
