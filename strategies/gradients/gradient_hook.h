#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "levin/core/options/option_type.h"

namespace c10d {
class CommHookInterface;
}

namespace levin {

class BucketVoteChannel;
class PowerSgd;
class SharedMemoryBackend;

/// In which form gradients travel.
enum class CommHook : std::uint8_t { kNone, kFp16Compress, kBf16Compress, kPowerSgd };
template <>
inline constexpr std::array kChoices<CommHook> = {
    Choice{CommHook::kNone, "none"}, Choice{CommHook::kFp16Compress, "fp16_compress"},
    Choice{CommHook::kBf16Compress, "bf16_compress"}, Choice{CommHook::kPowerSgd, "power_sgd"}};

struct GradientHookOptions {
  CommHook form = CommHook::kNone;
  SharedMemoryBackend* shared_memory = nullptr;  ///< what the group is, where it is that
  bool buckets_are_gradients = false;            ///< gradient_as_bucket_view
  BucketVoteChannel* votes = nullptr;            ///< travel along in the first bucket; null when they go another way
  PowerSgd* power_sgd = nullptr;                 ///< for CommHook::kPowerSgd
  /// Called with true when this rank begins to wait for others inside of backward, and with false when it goes on.
  std::function<void(bool)> on_wait = nullptr;
};

/// What makes a bucket of gradients its mean over ranks, where that is not LibTorch's own: in a compressed form, with votes, or
/// by ranks that share memory, which average while they combine, and read the first bucket where it is written. Votes are never
/// compressed: they are sums of small integers, exact in each format that gradients travel in, and PowerSGD sums them with what
/// it does not approximate. Null when LibTorch's own does.
std::unique_ptr<c10d::CommHookInterface> make_gradient_hook(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                            const GradientHookOptions& options);

}  // namespace levin
