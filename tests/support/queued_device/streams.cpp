#include "support/queued_device/streams.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support/queued_device/memory.h"
#include "support/queued_device/queues.h"

namespace levin::test::queued {

namespace {

constexpr c10::StreamId kStreamsOfPool = 4;

thread_local c10::DeviceIndex current_device = 0;
thread_local std::map<c10::DeviceIndex, c10::StreamId> current_streams;  // the default one where it has none

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, {kType, device}, id);
}

/// Threading: any.
struct QueuedGuard final : c10::impl::DeviceGuardImplInterface {
  QueuedGuard() = default;
  explicit QueuedGuard(c10::DeviceType) {}
  c10::DeviceType type() const override { return kType; }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < device_count(), "QueuedDevice ", static_cast<int>(device.index()), " does not exist");
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    uncheckedSetDevice(device);
    return old;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.has_index() ? device.index() : current_device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device.index(), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> next = 0;
    return stream_of(device.has_index() ? device.index() : current_device, 1 + next++ % kStreamsOfPool);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    static std::atomic<c10::StreamId> next = kStreamsOfPool;
    return stream_of(device.has_index() ? device.index() : current_device, ++next);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream old = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return old;
  }
  bool queryStream(const c10::Stream& stream) const override { return Queues::instance().ask(Queues::instance().last(stream)); }
  void synchronizeStream(const c10::Stream& stream) const override {
    Queues::instance().wait(Queues::instance().last(stream), "stream");
  }
  void synchronizeDevice(c10::DeviceIndex device) const override { Queues::instance().wait_for_device(device, "device"); }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override { note_use(memory, stream); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Ticket{stream, 0};
    *static_cast<Ticket*>(*event) = Queues::instance().last(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) Queues::instance().block(stream, *static_cast<const Ticket*>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Queues::instance().ask(*static_cast<const Ticket*>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) Queues::instance().wait(*static_cast<const Ticket*>(event), "event");
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Ticket*>(event); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, QueuedGuard);

/// Its state is a seed and how many operators have drawn, which the host knows.
class QueuedGenerator final : public c10::GeneratorImpl {
 public:
  explicit QueuedGenerator(c10::DeviceIndex device)
      : GeneratorImpl({kType, device}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  static c10::DeviceType device_type() { return kType; }
  void set_current_seed(std::uint64_t seed) override { state_ = {seed, 0}; }
  void set_offset(std::uint64_t offset) override { state_[1] = offset; }
  std::uint64_t get_offset() const override { return state_[1]; }
  std::uint64_t current_seed() const override { return state_[0]; }
  std::uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == sizeof(state_) && state.device_type() == c10::DeviceType::CPU,
                "the state of a QueuedGenerator has ", sizeof(state_), " bytes");
    std::memcpy(state_.data(), state.data(), sizeof(state_));
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({sizeof(state_)}, at::kByte);
    std::memcpy(state.data_ptr(), state_.data(), sizeof(state_));
    return state.getIntrusivePtr();
  }
  at::Generator next() {
    const std::lock_guard lock(mutex_);
    constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
    return at::make_generator<at::CPUGeneratorImpl>(state_[0] ^ (++state_[1] * kGoldenRatio));
  }

 private:
  QueuedGenerator* clone_impl() const override {
    auto* const copy = new QueuedGenerator(device().index());
    copy->state_ = state_;
    return copy;
  }
  std::array<std::uint64_t, 2> state_ = {c10::default_rng_seed_val, 0};
};

struct QueuedHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { QueuedGuard().setDevice({kType, device}); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return QueuedGuard().exchangeDevice({kType, device}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  bool isPinnedPtr(const void* data) const override { return pinned_block(data) != nullptr; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  c10::Device getDeviceFromPtr(void*) const override { return {kType, current_device}; }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<QueuedGenerator>(device < 0 ? current_device : device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    static auto* const generators = [] {
      auto* const made = new std::vector<at::Generator>;
      for (c10::DeviceIndex index = 0; index < device_count(); ++index)
        made->push_back(at::make_generator<QueuedGenerator>(index));
      return made;
    }();
    return generators->at(static_cast<std::size_t>(device < 0 ? current_device : device));
  }
};

const bool is_registered = [] {
  // LibTorch would prefer it to a GPU.
  const char* tested = std::getenv("LEVIN_TEST_ACCELERATOR");
  if (tested != nullptr && std::string(tested) == "cuda") return false;
  c10::register_privateuse1_backend("queued");
  c10::SetAllocator(kType, &device_memory());
  at::RegisterPrivateUse1HooksInterface(new QueuedHooks);
  return true;
}();

}  // namespace

c10::DeviceIndex device_count() {
  const char* all = std::getenv("QUEUED_DEVICES");
  const int count = all == nullptr ? 1 : std::atoi(all);
  const char* visible = std::getenv("QUEUED_VISIBLE_DEVICES");
  if (visible == nullptr) return static_cast<c10::DeviceIndex>(count);
  const std::string text = visible;
  return static_cast<c10::DeviceIndex>(text.empty() ? 0 : std::min<std::ptrdiff_t>(count, 1 + std::ranges::count(text, ',')));
}

c10::Stream current_stream(c10::DeviceIndex device) {
  const auto found = current_streams.find(device);
  return stream_of(device, found == current_streams.end() ? 0 : found->second);
}

at::Generator next_generator(const std::optional<at::Generator>& given, c10::DeviceIndex device) {
  const at::Generator generator = given && given->defined() ? *given : QueuedHooks().getDefaultGenerator(device);
  return at::check_generator<QueuedGenerator>(generator)->next();
}

}  // namespace levin::test::queued
