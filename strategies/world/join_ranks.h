#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/strategy.h"

namespace levin {

/// What metrics and decisions travel over. kAuto: shared memory when all ranks are on one host, else gloo.
enum class ControlTransport : std::uint8_t { kAuto, kSharedMemory, kGloo };
template <>
inline constexpr std::array kChoices<ControlTransport> = {Choice{ControlTransport::kAuto, "auto"},
                                                          Choice{ControlTransport::kSharedMemory, "shared_memory"},
                                                          Choice{ControlTransport::kGloo, "gloo"}};

/// What gradients, and other tensors of users, travel over. kAuto: the accelerator's own backend where it has one (nccl on
/// GPUs); on the CPU shared memory when all ranks are on one host, else gloo, and within hosts of several ranks shared memory
/// first. kGloo: nothing else.
enum class GradientTransport : std::uint8_t { kAuto, kSharedMemory, kGloo, kNccl };
template <>
inline constexpr std::array kChoices<GradientTransport> = {
    Choice{GradientTransport::kAuto, "auto"}, Choice{GradientTransport::kSharedMemory, "shared_memory"},
    Choice{GradientTransport::kGloo, "gloo"}, Choice{GradientTransport::kNccl, "nccl"}};

struct LEVIN_API JoinOptions {
  ControlTransport control_group = ControlTransport::kAuto;
  GradientTransport gradients = GradientTransport::kAuto;
  std::optional<double> timeout_seconds = std::nullopt;  ///< that ranks wait for one another; unset: the request's
};

/// What Strategy::join() of every strategy of several ranks does: reads the environment, starts the other ranks when nobody
/// else did (the calling process then becomes their launcher, and this does not return), takes this rank's device, and joins
/// them. A process joins once; options of later calls do not count. Ranks: all. Throws ConfigError when devices or environment
/// variables make no sense, or the devices asked for are not the ranks that a launcher started; DesyncError or IoError when the
/// ranks cannot come together.
LEVIN_API Launched join_ranks(const LaunchRequest& request, const JoinOptions& options = {});

}  // namespace levin
