#include "levin/core/checkpoint/loop_position.h"

#include <array>

namespace levin {

namespace {
constexpr std::array<const char*, 8> kNames = {"train_start", "epoch_start",    "batch",     "batch_end",
                                               "validation",  "validation_end", "epoch_end", "epoch_done"};
}  // namespace

const char* place_name(Place place) { return kNames[static_cast<std::size_t>(place)]; }

std::optional<Place> place_from_name(std::string_view name) {
  for (std::size_t index = 0; index < kNames.size(); ++index) {
    if (name == kNames[index]) return static_cast<Place>(index);
  }
  return std::nullopt;
}

}  // namespace levin
