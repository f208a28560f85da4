#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "levin/core/options/choice.h"

namespace c10d {
class CommHookInterface;
}

namespace levin {

class BucketVoteChannel;
class PowerSgd;

/// In which form gradients travel.
enum class CommHook : std::uint8_t { kNone, kFp16Compress, kBf16Compress, kPowerSgd };
template <>
inline constexpr std::array kChoices<CommHook> = {
    Choice{CommHook::kNone, "none"}, Choice{CommHook::kFp16Compress, "fp16_compress"},
    Choice{CommHook::kBf16Compress, "bf16_compress"}, Choice{CommHook::kPowerSgd, "power_sgd"}};

/// What makes a bucket of gradients its mean over ranks, where that is not LibTorch's own: in a compressed form, with votes,
/// which travel along in the first bucket, or by a group that averages by itself, which spares going over the bucket once to
/// divide it. Votes are never compressed: they are sums of small integers, exact in each format that gradients travel in, and
/// PowerSGD sums them with what it does not approximate. `power_sgd`: for CommHook::kPowerSgd. `on_wait`: called with true when
/// this rank begins to wait for others inside of backward, and with false when it goes on. Null when LibTorch's own does.
std::unique_ptr<c10d::CommHookInterface> make_gradient_hook(CommHook hook, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                            bool group_averages, BucketVoteChannel* votes, PowerSgd* power_sgd,
                                                            std::function<void(bool)> on_wait);

}  // namespace levin
