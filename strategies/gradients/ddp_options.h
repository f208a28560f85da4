#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "levin/core/config/options.h"
#include "levin/strategies/world/join_ranks.h"

namespace levin {

/// The compression of gradients.
enum class CommHook : std::uint8_t { kNone, kFp16Compress, kBf16Compress, kPowerSgd };
template <>
inline constexpr std::array kChoices<CommHook> = {
    Choice{CommHook::kNone, "none"}, Choice{CommHook::kFp16Compress, "fp16_compress"},
    Choice{CommHook::kBf16Compress, "bf16_compress"}, Choice{CommHook::kPowerSgd, "power_sgd"}};

/// The options of strategy ddp.
struct DdpOptions {
  GradientTransport process_group_backend = GradientTransport::kAuto;
  ControlTransport control_group = ControlTransport::kAuto;
  bool find_unused_parameters = false;
  bool static_graph = false;
  CommHook comm_hook = CommHook::kNone;
  std::int64_t matrix_approximation_rank = 1;  ///< this and the next four: PyTorch's PowerSGDState, with its defaults
  std::int64_t start_power_sgd_iter = 1000;
  double min_compression_rate = 2;
  bool use_error_feedback = true;
  bool warm_start = true;
  bool gradient_as_bucket_view = false;
  double bucket_cap_mb = 25;
  bool broadcast_buffers = true;
  std::optional<double> timeout = std::nullopt;  ///< seconds; unset: the Trainer's timeout_seconds

  static void declare(OptionList<DdpOptions>& options);
};

}  // namespace levin
