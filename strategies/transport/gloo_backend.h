#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <future>
#include <string>
#include <vector>

namespace levin {

/// Another backend, Gloo's, whose errors say what they are: where a call ends because of a connection, it, its work and its
/// future throw ConnectionLost. What levin does not call is not handed on, and throws.
class GlooBackend final : public c10d::Backend {
 public:
  explicit GlooBackend(c10::intrusive_ptr<c10d::Backend> gloo);

  const std::string getBackendName() const override { return gloo_->getBackendName(); }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& all, std::vector<at::Tensor>& mine,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& received, at::Tensor& sent,
                                               std::vector<std::int64_t>& received_sizes, std::vector<std::int64_t>& sent_sizes,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& mine, std::vector<std::vector<at::Tensor>>& all,
                                                const c10d::ReduceScatterOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
};

/// Ready when the call under way has ended, well or not: to wait for it and look at other things meanwhile.
std::future<void> end_of(c10d::Work& work);

/// Throws the exception that is being handled, as ConnectionLost where Gloo has thrown it because of a connection.
[[noreturn]] void rethrow_from_gloo();

/// Makes a call to Gloo; what it throws because of a connection becomes ConnectionLost.
template <class Call>
auto call_gloo(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    rethrow_from_gloo();
  }
}

}  // namespace levin
