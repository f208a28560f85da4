#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/strategy.h"

namespace levin {

/// The transport of metrics and decisions. kAuto: shared memory when all ranks are on one host, else gloo.
enum class ControlTransport : std::uint8_t { kAuto, kSharedMemory, kGloo };
template <>
inline constexpr std::array kChoices<ControlTransport> = {Choice{ControlTransport::kAuto, "auto"},
                                                          Choice{ControlTransport::kSharedMemory, "shared_memory"},
                                                          Choice{ControlTransport::kGloo, "gloo"}};

/// The transport of gradients and users' tensors. kAuto: the accelerator's own backend, if any (nccl on GPUs); on the CPU
/// shared memory when all ranks are on one host, else gloo, with shared memory first within hosts of several ranks. kGloo: only
/// gloo.
enum class GradientTransport : std::uint8_t { kAuto, kSharedMemory, kGloo, kNccl };
template <>
inline constexpr std::array kChoices<GradientTransport> = {
    Choice{GradientTransport::kAuto, "auto"}, Choice{GradientTransport::kSharedMemory, "shared_memory"},
    Choice{GradientTransport::kGloo, "gloo"}, Choice{GradientTransport::kNccl, "nccl"}};

struct LEVIN_API JoinOptions {
  ControlTransport control_group = ControlTransport::kAuto;
  GradientTransport gradients = GradientTransport::kAuto;
  std::optional<double> timeout_seconds = std::nullopt;  ///< limit of a wait for other ranks; unset: the request's
};

/// Implements Strategy::join() for strategies of several ranks: reads the environment, starts the other ranks unless another
/// launcher did (the calling process then becomes their launcher, and the call does not return), takes this rank's device, and
/// joins the ranks. A process joins once; options of later calls are ignored. Ranks: all. Throws ConfigError when devices or
/// environment variables are wrong, or the requested devices do not match the ranks that a launcher started; DesyncError or
/// IoError when the ranks cannot connect.
LEVIN_API Launched join_ranks(const LaunchRequest& request, const JoinOptions& options = {});

}  // namespace levin
