#include "levin/strategies/devices/cuda_accelerator.h"

#include "levin/strategies/cuda/cuda_api.h"
#include "levin/strategies/cuda/cuda_library.h"

namespace levin {

int CudaAccelerator::device_count() const { return cuda_api().device_count(); }

at::Device CudaAccelerator::select(int index) const {
  cuda_api().select_device(index);
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

void CudaAccelerator::synchronize(const at::Device& device) const { cuda_api().synchronize(device.index()); }

std::optional<DeviceMemory> CudaAccelerator::memory(const at::Device& device) const {
  return cuda_api().memory(device.index());
}

void CudaAccelerator::clear_memory(const at::Device& device) const { cuda_api().clear_memory(device.index()); }

std::optional<at::Generator> CudaAccelerator::generator(const at::Device& device) const {
  return cuda_api().generator(device.index());
}

std::unique_ptr<DeviceGraph> CudaAccelerator::make_graph(const at::Device& device, const DeviceGraph* before) const {
  return cuda_api().make_graph(device.index(), before);
}

c10::intrusive_ptr<c10d::Backend> CudaAccelerator::make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                                int size, double timeout_seconds) const {
  return cuda_api().make_nccl_backend(store, rank, size, timeout_seconds);
}

}  // namespace levin
