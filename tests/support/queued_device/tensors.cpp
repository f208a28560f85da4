#include "support/queued_device/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <atomic>
#include <optional>
#include <utility>

#include "support/queued_device/memory.h"
#include "support/queued_device/queued_device.h"
#include "support/queued_device/queues.h"
#include "support/queued_device/streams.h"

namespace levin::test::queued {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

std::atomic<std::int64_t> copies_to_device, copies_to_host, copies_between, blocking_to_device, blocking_to_host;

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &device_memory(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  return empty_strided_on(device.value_or(c10::impl::VirtualGuardImpl(kType).getDevice()), size, stride,
                          c10::dtype_or_default(type));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  const at::Tensor larger = empty(size, self.scalar_type(), {}, self.device(), {}, format);
  c10::TensorImpl& tensor = *self.unsafeGetTensorImpl();
  if (larger.nbytes() > self.storage().nbytes()) tensor.set_storage_keep_dtype(larger.storage());
  tensor.set_sizes_and_strides(larger.sizes(), larger.strides(), self.storage_offset());
  return self;
}

void copy_to_device(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const c10::Stream stream = current_stream(self.device().index());
  const auto block =
      source.is_contiguous() && source.scalar_type() == self.scalar_type() ? pinned_block(source.const_data_ptr()) : nullptr;
  ++copies_to_device;
  // From other memory of the host a copy is made before the call returns.
  const at::Tensor from = block != nullptr
                              ? at::from_blob(const_cast<void*>(source.const_data_ptr()), source.sizes(), source.options())
                              : source.clone();
  Queues& queues = Queues::instance();
  queues.push(stream, [to = seen_by_host(self), from, block] {
    return Work([=] {
      to.copy_(from);
      static_cast<void>(block);
    });
  });
  if (!non_blocking || block == nullptr) ++blocking_to_device;
  if (!non_blocking) queues.wait(queues.last(stream), "copy");
}

void copy_to_host(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const c10::Stream stream = current_stream(source.device().index());
  const auto block = self.is_contiguous() ? pinned_block(self.const_data_ptr()) : nullptr;
  ++copies_to_host;
  Queues& queues = Queues::instance();
  if (non_blocking && block != nullptr) {
    const at::Tensor to = at::from_blob(self.mutable_data_ptr(), self.sizes(), self.options().requires_grad(false));
    queues.push(stream, [to, from = seen_by_host(source), block] {
      return Work([=] {
        to.copy_(from);
        static_cast<void>(block);
      });
    });
    return;
  }
  ++blocking_to_host;
  queues.wait(queues.last(stream), "copy");
  const at::NoGradGuard no_grad;
  at::Tensor(self).detach().copy_(seen_by_host(source));
}

void copy_here(const at::Tensor& self, const at::Tensor& source) {
  Queues& queues = Queues::instance();
  const c10::Stream from = current_stream(source.device().index());
  const c10::Stream to = current_stream(self.device().index());
  if (self.device() != source.device()) ++copies_between;
  queues.block(from, queues.last(to));
  queues.push(from, [to = seen_by_host(self), from = seen_by_host(source)] { return Work([=] { to.copy_(from); }); });
  queues.block(to, queues.last(from));
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const at::Tensor given = source.sizes() == self.sizes() ? source : source.expand(self.sizes());
  if (self.numel() == 0) return self;
  if (!is_here(given)) {
    copy_to_device(self, given, non_blocking);
  } else if (!is_here(self)) {
    copy_to_host(self, given, non_blocking);
  } else {
    copy_here(self, given);
  }
  return self;
}

at::Scalar number_of(const at::Tensor& tensor) {
  ++copies_to_host;
  ++blocking_to_host;
  Queues& queues = Queues::instance();
  queues.wait(queues.last(current_stream(tensor.device().index())), "number");
  return seen_by_host(tensor).item();
}

void record_stream(at::Tensor& self, c10::Stream stream) { note_use(self.storage().data_ptr(), stream); }

/// A module is moved to the device by giving its tensors the memory of others.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto is_dense = [](const at::Tensor& tensor) { return tensor.layout() == at::kStrided; };
  return is_dense(self) && is_dense(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("resize_", &resize);
  library.impl("copy_", &copy);
  library.impl("_local_scalar_dense", &number_of);
  library.impl("record_stream", &record_stream);
  library.impl("view", &at::native::view);
  library.impl("view_as_complex", &at::native::view_as_complex);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
}

}  // namespace

at::Tensor empty_strided_on(const c10::Device& device, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, &device_memory(), kKeys, type);
}

at::Tensor seen_by_host(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kCPU));
  at::Tensor seen = at::from_blob(
      const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), [](void*) {},
      at::TensorOptions().dtype(tensor.dtype()), c10::Device(c10::kCPU));
  seen._set_neg(tensor.is_neg());
  seen._set_conj(tensor.is_conj());
  return seen;
}

}  // namespace levin::test::queued

namespace levin::test {

QueuedDevice::Counts QueuedDevice::counts() {
  using namespace queued;
  return {.waits = Queues::instance().waits(),
          .copies_to_device = copies_to_device,
          .copies_to_host = copies_to_host,
          .copies_between = copies_between,
          .blocking_to_device = blocking_to_device,
          .blocking_to_host = blocking_to_host,
          .allocations = allocations(),
          .kernels = kernels_given()};
}

void QueuedDevice::on_wait(std::function<void(const char* what)> seen) { queued::Queues::instance().on_wait(std::move(seen)); }
void QueuedDevice::others_first(bool now) { queued::Queues::instance().others_first(now); }
void QueuedDevice::forget_error() { queued::Queues::instance().forget_error(); }
void QueuedDevice::limit_memory(std::int64_t bytes) { queued::limit_device_memory(bytes); }

}  // namespace levin::test
