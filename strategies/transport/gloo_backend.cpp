#include "levin/strategies/transport/gloo_backend.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "levin/core/base/unfinished_work.h"
#include "levin/strategies/failure/peer_errors.h"

namespace levin {

namespace {

/// Gloo has no types for it: in its own messages, these say that the other host has answered.
bool is_closed_by_peer(std::string_view message) {
  constexpr std::array<std::string_view, 4> kSigns = {"Connection closed by peer", "Connection reset by peer", "Broken pipe",
                                                      "Connection refused"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return message.find(sign) != std::string_view::npos; });
}

/// A call of Gloo's that is under way.
class GlooWork final : public c10d::Work {
 public:
  explicit GlooWork(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  bool wait(std::chrono::milliseconds timeout) override {
    return call_gloo([&] { return work_->wait(timeout); });
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const auto future = work_->getFuture();
    return future->then([](c10::ivalue::Future& done) { return call_gloo([&] { return done.value(); }); },
                        future->elementType());
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

/// exit() waits for the call: LibTorch keeps a list of those that are under way, which goes with its static objects.
template <class Call>
c10::intrusive_ptr<c10d::Work> start(Call call) {
  const auto unfinished = std::make_shared<UnfinishedWork>();
  const c10::intrusive_ptr<c10d::Work> work = call_gloo(call);
  work->getFuture()->addCallback([unfinished](c10::ivalue::Future&) {});
  return c10::make_intrusive<GlooWork>(work);
}

/// Gloo makes it of other calls, and gives no future: it has ended for exit() when somebody has waited for it, or nobody will.
class GlooReduceScatter final : public c10d::Work {
 public:
  template <class Call>
  explicit GlooReduceScatter(Call call) : unfinished_(std::make_unique<UnfinishedWork>()), work_(call_gloo(call)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    const bool is_done = call_gloo([&] { return work_->wait(timeout); });
    unfinished_.reset();
    return is_done;
  }

 private:
  std::unique_ptr<UnfinishedWork> unfinished_;
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace

std::future<void> end_of(c10d::Work& work) {
  const auto ended = std::make_shared<std::promise<void>>();
  std::future<void> end = ended->get_future();
  work.getFuture()->addCallback([ended](c10::ivalue::Future&) { ended->set_value(); });
  return end;
}

void rethrow_from_gloo() {
  try {
    throw;
  } catch (const Error&) {
    throw;  // the run's store, say, knows better what has happened
  } catch (const c10::DistError& error) {
    throw ConnectionLost(error.what_without_backtrace(), is_closed_by_peer(error.what_without_backtrace()));
  } catch (const c10::Error&) {
    throw;  // LibTorch refuses the call
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ConnectionLost(error.what(), is_closed_by_peer(error.what()));
  }
}

GlooBackend::GlooBackend(c10::intrusive_ptr<c10d::Backend> gloo)
    : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}

c10::intrusive_ptr<c10d::Work> GlooBackend::broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) {
  return start([&] { return gloo_->broadcast(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> GlooBackend::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  return start([&] { return gloo_->allreduce(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> GlooBackend::allgather(std::vector<std::vector<at::Tensor>>& all, std::vector<at::Tensor>& mine,
                                                      const c10d::AllgatherOptions& options) {
  return start([&] { return gloo_->allgather(all, mine, options); });
}

c10::intrusive_ptr<c10d::Work> GlooBackend::alltoall_base(at::Tensor& received, at::Tensor& sent,
                                                          std::vector<std::int64_t>& received_sizes,
                                                          std::vector<std::int64_t>& sent_sizes,
                                                          const c10d::AllToAllOptions& options) {
  return start([&] { return gloo_->alltoall_base(received, sent, received_sizes, sent_sizes, options); });
}

c10::intrusive_ptr<c10d::Work> GlooBackend::reduce_scatter(std::vector<at::Tensor>& mine,
                                                           std::vector<std::vector<at::Tensor>>& all,
                                                           const c10d::ReduceScatterOptions& options) {
  return c10::make_intrusive<GlooReduceScatter>([&] { return gloo_->reduce_scatter(mine, all, options); });
}

}  // namespace levin
