#include "support/queued_device/backend.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "levin/strategies/transport/shared_memory_backend.h"
#include "support/queued_device/queues.h"
#include "support/queued_device/streams.h"
#include "support/queued_device/tensors.h"

namespace levin::test::queued {

namespace {

using Tensors = std::vector<at::Tensor>;

class QueuedBackend final : public c10d::Backend {
 public:
  QueuedBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) : Backend(rank, size) {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::hours(1));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    // Never ended: the queue may still wait in it.
    gloo_ = new c10d::ProcessGroupGloo(store, rank, size, options);
    c10::raw::intrusive_ptr::incref(gloo_);
  }

  const std::string getBackendName() const override { return "queued"; }
  void shutdown() override { std::fputs("the queued backend ends\n", stderr); }
  void abort() override { std::fputs("the queued backend is aborted\n", stderr); }
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return enqueue(tensors, tensors, [=, gloo = gloo_](Tensors& seen) { gloo->broadcast(seen, options)->wait(); });
  }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return enqueue(tensors, tensors, [=, gloo = gloo_](Tensors& seen) { gloo->allreduce(seen, options)->wait(); });
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& all, Tensors& mine,
                                           const c10d::AllgatherOptions& options) override {
    Tensors used = all.front();
    used.push_back(mine.front());
    return enqueue(used, all.front(), [=, gloo = gloo_](Tensors& seen) {
      Tensors own = {seen.back()};
      std::vector<Tensors> received = {Tensors(seen.begin(), seen.end() - 1)};
      gloo->allgather(received, own, options)->wait();
    });
  }

 private:
  c10::intrusive_ptr<c10d::Work> enqueue(const Tensors& used, const Tensors& results,
                                         const std::function<void(Tensors&)>& call) {
    const c10::Device device = used.front().device();
    const c10::impl::VirtualGuardImpl guard(device.type());
    if (!stream_) stream_ = guard.getNewStream(device, 0);
    c10::Event given(device.type());
    given.record(guard.getStream(device));
    given.block(*stream_);
    Tensors seen;
    for (const at::Tensor& tensor : used) {
      tensor.record_stream(*stream_);
      seen.push_back(seen_by_host(tensor));
    }
    Queues::instance().push(*stream_, [=] {
      return Work([=] {
        Tensors tensors = seen;
        try {
          call(tensors);
        } catch (const std::exception&) {
          while (true) std::this_thread::sleep_for(std::chrono::hours(1));
        }
      });
    });
    // Other ranks' devices wait for it, whichever rank waits for this one.
    Queues::instance().ask(Queues::instance().last(*stream_));
    // A caller that waits blocks the current stream, not the host.
    const auto future = FutureWork::make_future({device});
    const c10::StreamGuard in_its_stream(*stream_);
    future->markCompleted(results);
    return c10::make_intrusive<FutureWork>(future);
  }

  c10d::ProcessGroupGloo* gloo_;
  std::optional<c10::Stream> stream_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_queued_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  return c10::make_intrusive<QueuedBackend>(store, rank, size);
}

}  // namespace levin::test::queued
