#include "support/counting_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/MTIAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/options/registry.h"
#include "support/test_device.h"

namespace levin::test {
namespace {

std::atomic<std::int64_t> waits_so_far = 0;

/// The same memory as a tensor of another kind of device. It lives as long as either.
at::Tensor shared_with(const at::Tensor& tensor, c10::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  const auto forget = [](void* owner) { delete static_cast<at::Tensor*>(owner); };
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                       c10::DataPtr(tensor.storage().mutable_data(), new at::Tensor(tensor), forget, device));
  const auto key = device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::MTIA;
  at::Tensor other = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  other.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  other._set_neg(tensor.is_neg());
  return other;
}
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.numel() == 0) return at::empty(tensor.sizes(), tensor.options().device(c10::kCPU));
  return shared_with(tensor, c10::kCPU);
}
at::Tensor on_device(const at::Tensor& tensor) { return shared_with(tensor, CountingDevice::device()); }

/// Lets a tensor that an operator has written be of the size that it has made of it: an empty one has no memory to share.
void become(const at::Tensor& written, const at::Tensor& result) {
  if (written.numel() > 0 || result.numel() == 0) return;
  const at::Tensor other = on_device(result);
  written.unsafeGetTensorImpl()->set_storage_keep_dtype(other.storage());
  written.unsafeGetTensorImpl()->set_sizes_and_strides(other.sizes(), other.strides(), other.storage_offset());
}

/// An argument or a result with its tensors, lists of tensors and devices turned into those of the other side.
template <class Turn>
c10::IValue turned(const c10::IValue& value, c10::Device to, const Turn& turn) {
  if (value.isTensor()) return turn(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(turn(tensor));
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      tensors.push_back(tensor ? std::optional(turn(*tensor)) : std::nullopt);
    }
    return tensors;
  }
  return value.isDevice() ? c10::IValue(to) : value;
}

/// The argument that a result is, where an operator writes in place; else none.
std::optional<std::size_t> argument_returned(const c10::FunctionSchema& schema, std::size_t result) {
  const c10::AliasInfo* written = schema.returns()[result].alias_info();
  if (written == nullptr || !written->isWrite()) return std::nullopt;
  for (std::size_t index = 0; index < schema.arguments().size(); ++index) {
    const c10::AliasInfo* argument = schema.arguments()[index].alias_info();
    if (argument != nullptr && argument->beforeSets() == written->beforeSets()) return index;
  }
  return std::nullopt;
}

/// Any operator: the CPU's, on the same memory.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size());
  const std::vector<c10::IValue> given(first, stack->end());
  for (auto value = first; value != stack->end(); ++value) *value = turned(*value, c10::kCPU, on_host);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  const std::size_t before = stack->size() - schema.returns().size();
  for (std::size_t index = 0; index < schema.returns().size(); ++index) {
    c10::IValue& result = (*stack)[before + index];
    if (!result.isTensor() && !result.isTensorList()) ++waits_so_far;
    const auto argument = argument_returned(schema, index);
    if (argument && result.isTensor()) become(given[*argument].toTensor(), result.toTensor());
    result = argument ? given[*argument] : turned(result, CountingDevice::device(), on_device);
  }
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device>,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return on_device(at::empty(size, at::TensorOptions().dtype(type), format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return on_device(at::empty_strided(size, stride, at::TensorOptions().dtype(type)));
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool) {
  if (self.is_cpu()) ++waits_so_far;
  on_host(self).copy_(on_host(source));
  return self;
}

at::Scalar number_of(const at::Tensor& tensor) {
  ++waits_so_far;
  return on_host(tensor).item();
}

/// One device with one stream, on which all is done at once.
struct CountingGuard final : c10::impl::DeviceGuardImplInterface {
  CountingGuard() = default;
  explicit CountingGuard(c10::DeviceType) {}
  c10::DeviceType type() const override { return CountingDevice::device().type(); }
  c10::Device exchangeDevice(c10::Device) const override { return CountingDevice::device(); }
  c10::Device getDevice() const override { return CountingDevice::device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(MTIA, CountingGuard);

TORCH_LIBRARY_IMPL(_, MTIA, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }

TORCH_LIBRARY_IMPL(aten, MTIA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy);
  library.impl("_local_scalar_dense", &number_of);
}

/// Tells LibTorch that the device is there.
struct CountingHooks final : at::MTIAHooksInterface {
  bool hasMTIA() const override { return test_accelerator() != "cuda"; }  // LibTorch would prefer it to a GPU
  bool isAvailable() const override { return true; }
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
};
const bool registers_hooks = [] {
  // LibTorch 2.11 gives it arguments.
  at::MTIAHooksRegistry()->Register("MTIAHooks", [](const auto&...) { return std::make_unique<CountingHooks>(); });
  return true;
}();

/// Random numbers are the CPU's, which computes.
class CountingAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "counting"; }
  at::DeviceType device_type() const override { return CountingDevice::device().type(); }
  int device_count() const override { return 1; }
  bool pins_memory() const override { return false; }
  std::optional<at::Generator> generator(const at::Device&) const override { return std::nullopt; }
};
LEVIN_REGISTER_ACCELERATOR(CountingAccelerator, "A device that counts who waits for it");

}  // namespace

std::int64_t CountingDevice::waits() { return waits_so_far; }

}  // namespace levin::test
