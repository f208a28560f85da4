#include "levin/core/diagnostics/held_memory.h"

#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/strategy.h"

namespace levin {

namespace {

double in_mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Sums the memory of tensors on one device, each piece for its first owner.
class MemoryCount {
 public:
  explicit MemoryCount(const at::Device& device) : device_(device) {}

  std::int64_t add(const std::vector<at::Tensor>& tensors) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += add(tensor);
    return bytes;
  }

 private:
  std::int64_t add(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device() != device_) return 0;
    if (tensor.is_sparse()) return add(tensor._indices()) + add(tensor._values());
    if (!tensor.has_storage() || !seen_.insert(tensor.storage().unsafeGetStorageImpl()).second) return 0;
    return static_cast<std::int64_t>(tensor.storage().nbytes());
  }

  at::Device device_;
  std::unordered_set<const c10::StorageImpl*> seen_;
};

struct Held {
  const char* what;
  std::int64_t bytes;
};

/// The device memory of tensors that levin knows.
std::vector<Held> known_tensors(const RunParts& parts, const at::Device& device) {
  std::vector<at::Tensor> weights = parts.module->parameters();
  std::vector<at::Tensor> states;
  for (const auto& optimizer : parts.optimizers) {
    std::ranges::copy(all_parameters(*optimizer), std::back_inserter(weights));
    std::ranges::copy(state_tensors(*optimizer), std::back_inserter(states));
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : weights) gradients.push_back(weight.grad());
  MemoryCount memory(device);
  return {{"weights", memory.add(weights)},
          {"buffers", memory.add(parts.module->buffers())},
          {"gradients", memory.add(gradients)},
          {"optimizer state", memory.add(states)}};
}

/// The error has freed most of the memory that was in use when it came.
std::string reserved_text(const DeviceMemory& memory, std::int64_t peak) {
  const std::int64_t unused = memory.reserved - memory.allocated;
  std::string text;
  if (unused > 0) text += format("\n    {:.1f} MiB are reserved and unused now", in_mib(unused));
  const std::int64_t freed = std::min(unused, peak - memory.allocated);
  if (freed > 0) text += format("; up to {:.1f} of them were in use before, by activations above all", in_mib(freed));
  const std::int64_t others = memory.used.value_or(0) - memory.reserved;
  if (others > 0) text += format("\n    {:.1f} MiB are other processes' and the driver's", in_mib(others));
  return text;
}

std::string held_memory(const RunParts& parts, const Strategy& strategy) {
  const at::Device device = strategy.device();
  const Accelerator& accelerator = strategy.accelerator();
  const std::optional<DeviceMemory> memory = accelerator.memory(device);
  if (device.is_cpu() && !memory) return "";
  std::vector<Held> held = known_tensors(parts, device);
  if (memory) {
    std::int64_t rest = memory->allocated;
    for (const Held& each : held) rest -= each.bytes;
    held.push_back({"other: live activations and graphs, tensors of module and callbacks", rest});
  }
  std::ranges::stable_sort(held, std::greater(), &Held::bytes);
  std::string text = format("Rank {} holds on {}, in MiB:", strategy.rank(), accelerator.describe(device));
  for (const auto& [what, bytes] : held) {
    if (bytes > 0) text += format("\n    {:>8.1f}  {}", in_mib(bytes), what);
  }
  if (!memory) return text;
  const auto statistics = accelerator.statistics(device);
  const auto peak = statistics.find("allocated_bytes.all.peak");
  return text + reserved_text(*memory, peak == statistics.end() ? 0 : static_cast<std::int64_t>(peak->second));
}

}  // namespace

void add_held_memory(c10::Error& error, const RunParts& parts, const Strategy& strategy) noexcept {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) return;
  try {
    const std::string held = held_memory(parts, strategy);
    if (!held.empty()) error.add_context(held);
  } catch (...) {  // the original error counts
  }
}

}  // namespace levin
