#include <ATen/core/Generator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/config/registry.h"
#include "support/queued_device/backend.h"
#include "support/queued_device/memory.h"
#include "support/queued_device/queued_device.h"
#include "support/queued_device/queues.h"
#include "support/queued_device/streams.h"

namespace levin::test::queued {

namespace {

/// Memory that work allocates on the graph's stream belongs to that stream.
class QueuedGraph final : public DeviceGraph {
 public:
  QueuedGraph(const c10::Device& device, const QueuedGraph* before)
      : stream_(before != nullptr ? before->stream_ : c10::impl::VirtualGuardImpl(kType).getNewStream(device)) {}

  void record(const std::function<void()>& work) override {
    Queues::instance().wait_for_device(stream_.device_index(), "device");
    const c10::StreamGuard guard(stream_);
    Queues::instance().record(stream_, recording_);
    try {
      work();
    } catch (...) {
      Queues::instance().record(stream_, nullptr);
      throw;
    }
    Queues::instance().record(stream_, nullptr);
  }
  void replay() override {
    for (const MakeWork& make : *recording_) Queues::instance().push(current_stream(stream_.device_index()), make);
  }

 private:
  c10::Stream stream_;
  std::shared_ptr<Recording> recording_ = std::make_shared<Recording>();
};

class QueuedAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "queued"; }
  at::DeviceType device_type() const override { return kType; }
  std::string visibility_variable() const override { return "QUEUED_VISIBLE_DEVICES"; }
  std::optional<DeviceMemory> memory(const at::Device& device) const override { return memory_of(device.index()); }
  void clear_memory(const at::Device& device) const override { give_memory_back(device.index()); }
  std::optional<at::ScalarType> autocast_type(PrecisionFormat format) const override {
    return format == PrecisionFormat::kFloat16Mixed ? at::kHalf : at::kBFloat16;
  }
  /// "queued" with QUEUED_BACKEND, else "gloo".
  std::string backend_name() const override {
    return std::getenv("QUEUED_BACKEND") != nullptr ? "queued" : Accelerator::backend_name();
  }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 double) const override {
    return make_queued_backend(store, rank, size);
  }
  std::unique_ptr<DeviceGraph> make_graph(const at::Device& device, const DeviceGraph* before) const override {
    return std::make_unique<QueuedGraph>(device, dynamic_cast<const QueuedGraph*>(before));
  }
};
LEVIN_REGISTER_ACCELERATOR(QueuedAccelerator, "A device whose work waits in queues");

}  // namespace

}  // namespace levin::test::queued
