#pragma once

#include <cstdint>

#include "levin/core/options/choice.h"

namespace levin {

/// What metrics and decisions travel over. kAuto: shared memory when all ranks are on one host, else gloo.
enum class ControlTransport : std::uint8_t { kAuto, kSharedMemory, kGloo };
template <>
inline constexpr std::array kChoices<ControlTransport> = {Choice{ControlTransport::kAuto, "auto"},
                                                          Choice{ControlTransport::kSharedMemory, "shared_memory"},
                                                          Choice{ControlTransport::kGloo, "gloo"}};

}  // namespace levin
