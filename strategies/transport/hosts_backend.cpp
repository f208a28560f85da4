#include "levin/strategies/transport/hosts_backend.h"

#include <torch/types.h>

#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/base/unfinished_work.h"
#include "levin/strategies/transport/tensor_values.h"

namespace levin {

/// An all-reduce that ends when end() says so.
class HostsBackend::CallWork final : public c10d::Work {
 public:
  CallWork(int rank, std::vector<at::Tensor> tensors)
      : Work(rank, c10d::OpType::ALLREDUCE),
        tensors_(std::move(tensors)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  /// `error`: null where there is none.
  void end(const std::exception_ptr& error) {
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(c10::IValue(tensors_));
    }
    finish(error);
  }

 private:
  std::vector<at::Tensor> tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// One that waits for its turn, or is under way.
struct HostsBackend::Call {
  ContiguousTensor tensor;
  SharedMemoryCollectives::Values values;
  std::string what;
  c10::intrusive_ptr<CallWork> work;
  std::shared_ptr<UnfinishedWork> unfinished;
};

HostsBackend::HostsBackend(HostsReduction::Links links, c10::intrusive_ptr<c10d::Backend> flat)
    : Backend(flat->getRank(), flat->getSize()), reduction_(std::move(links)), flat_(std::move(flat)) {
  thread_ = quiet_thread([this] { make_calls(); });
}

HostsBackend::~HostsBackend() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  reduction_.give_up();
  wake_.notify_all();
  thread_.join();
  try {
    const auto error = std::make_exception_ptr(DesyncError("the group of ranks has ended"));
    for (const auto& call : calls_) call->work->end(error);
  } catch (...) {
    // What calls back when a call ends has failed: there is nobody left to tell.
  }
}

c10::intrusive_ptr<c10d::Work> HostsBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                       const c10d::AllreduceOptions& options) {
  const auto op = find_combine_op(options.reduceOp);
  const bool is_dense = tensors.size() == 1 && tensors[0].layout() == at::kStrided && tensors[0].device().is_cpu();
  const auto combine = op && is_dense ? find_combine(*op, tensors[0].scalar_type()) : nullptr;
  // What this one cannot do, that one does, or says why not.
  if (combine == nullptr) return flat_->allreduce(tensors, options);
  const at::NoGradGuard no_grad;
  const ContiguousTensor tensor(tensors[0]);
  const SharedMemoryCollectives::Values values{bytes_of(tensor.get()), static_cast<std::size_t>(tensor.get().element_size()),
                                               combine};
  const auto work = c10::make_intrusive<CallWork>(rank_, tensors);
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::make_shared<Call>(
        Call{tensor, values, call_text("all_reduce", *op, tensor.get()), work, std::make_shared<UnfinishedWork>()}));
  }
  wake_.notify_all();
  return work;
}

std::shared_ptr<HostsBackend::Call> HostsBackend::next_call() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return ends_ || !calls_.empty(); });
  if (ends_) return nullptr;
  auto call = calls_.front();
  calls_.pop_front();
  return call;
}

void HostsBackend::make_calls() {
  const at::NoGradGuard no_grad;
  while (const auto call = next_call()) make(*call);
}

void HostsBackend::make(Call& call) {
  try {
    if (broken_) std::rethrow_exception(broken_);
    reduction_.all_reduce(call.values, call.what);
    call.tensor.write_back();
  } catch (...) {
    broken_ = std::current_exception();
  }
  call.work->end(broken_);
}

c10::intrusive_ptr<c10d::Work> HostsBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                       const c10d::BroadcastOptions& options) {
  return flat_->broadcast(tensors, options);
}

c10::intrusive_ptr<c10d::Work> HostsBackend::allgather(std::vector<std::vector<at::Tensor>>& all, std::vector<at::Tensor>& mine,
                                                       const c10d::AllgatherOptions& options) {
  return flat_->allgather(all, mine, options);
}

c10::intrusive_ptr<c10d::Work> HostsBackend::alltoall_base(at::Tensor& received, at::Tensor& sent,
                                                           std::vector<std::int64_t>& received_sizes,
                                                           std::vector<std::int64_t>& sent_sizes,
                                                           const c10d::AllToAllOptions& options) {
  return flat_->alltoall_base(received, sent, received_sizes, sent_sizes, options);
}

c10::intrusive_ptr<c10d::Work> HostsBackend::reduce_scatter(std::vector<at::Tensor>& mine,
                                                            std::vector<std::vector<at::Tensor>>& all,
                                                            const c10d::ReduceScatterOptions& options) {
  return flat_->reduce_scatter(mine, all, options);
}

c10::intrusive_ptr<c10d::Work> HostsBackend::barrier(const c10d::BarrierOptions& options) { return flat_->barrier(options); }

}  // namespace levin
