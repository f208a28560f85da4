#include "levin/strategies/transport/host_copy_backend.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "levin/core/device_copies.h"
#include "levin/strategies/transport/shared_memory_backend.h"

namespace levin {

namespace {

using Tensors = std::vector<at::Tensor>;

/// Of tensors of one device. Waits once for all of them.
Tensors copied_to_host(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(sent_to_host(tensor));
  }
  current_stream(tensors.front().device()).synchronize();
  return copies;
}

c10::intrusive_ptr<c10d::Work> sent_back(const Tensors& from, const Tensors& to) {
  for (std::size_t index = 0; index < to.size(); ++index) to[index].copy_(from[index], /*non_blocking=*/true);
  auto future = FutureWork::make_future({to.front().device()});
  future->markCompleted(to);
  return c10::make_intrusive<FutureWork>(std::move(future));
}

}  // namespace

HostCopyBackend::HostCopyBackend(c10::intrusive_ptr<c10d::Backend> on_host)
    : Backend(on_host->getRank(), on_host->getSize()), on_host_(std::move(on_host)) {}

HostCopyBackend::Work HostCopyBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::NoGradGuard no_grad;
  Tensors copies = copied_to_host(tensors);
  on_host_->broadcast(copies, options)->wait();
  return sent_back(copies, tensors);
}

HostCopyBackend::Work HostCopyBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::NoGradGuard no_grad;
  Tensors copies = copied_to_host(tensors);
  on_host_->allreduce(copies, options)->wait();
  return sent_back(copies, tensors);
}

HostCopyBackend::Work HostCopyBackend::allgather(std::vector<Tensors>& all, Tensors& mine,
                                                 const c10d::AllgatherOptions& options) {
  const at::NoGradGuard no_grad;
  Tensors copies = copied_to_host(mine);
  std::vector<Tensors> received(all.size());
  Tensors from, to;
  for (std::size_t index = 0; index < all.size(); ++index) {
    for (const at::Tensor& target : all[index]) received[index].push_back(at::empty(target.sizes(), host_options(target)));
    from.insert(from.end(), received[index].begin(), received[index].end());
    to.insert(to.end(), all[index].begin(), all[index].end());
  }
  on_host_->allgather(received, copies, options)->wait();
  return sent_back(from, to);
}

}  // namespace levin
