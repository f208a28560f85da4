#include "levin/core/device_copies.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <map>

namespace levin {

namespace {

/// Below it the overhead of another stream, some 10 microseconds, is larger than the gain.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

struct CopyStream {
  explicit CopyStream(const at::Device& device)
      : stream(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)), copied(device.type()) {}
  c10::Stream stream;
  c10::Event copied;
};

CopyStream& copy_stream(const at::Device& device) {
  thread_local std::map<std::pair<at::DeviceType, at::DeviceIndex>, CopyStream> streams;
  return streams.try_emplace({device.type(), device.index()}, device).first->second;
}

}  // namespace

Batch copied_beside_work(const Batch& batch, const at::Device& device) {
  std::size_t bytes = 0;
  bool all_on_host = true;
  for (const auto& [name, tensor] : batch.items()) {
    if (!tensor.defined()) continue;
    bytes += tensor.nbytes();
    all_on_host &= tensor.is_cpu();
  }
  if (bytes < kLeastBytes || !all_on_host) return batch.to(device, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl implementation(device.type());
  const c10::Stream user = current_stream(device);
  CopyStream& copies = copy_stream(user.device());
  Batch copied;
  {
    const c10::StreamGuard guard(copies.stream);
    copied = batch.to(device, /*non_blocking=*/true);
  }
  copies.copied.record(copies.stream);
  copies.copied.block(user);
  for (const auto& [name, tensor] : copied.items()) {
    // Its memory is not reused before the user is done with it.
    if (tensor.defined()) implementation.recordDataPtrOnStream(tensor.storage().data_ptr(), user);
  }
  return copied;
}

}  // namespace levin
