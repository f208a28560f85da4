#pragma once

#include <cstdint>

#include "levin/core/export.h"
#include "levin/core/protocol/hook.h"

namespace levin {

/// Where a rank is: what the table of a stalled run shows, and what the record of a failure says.
struct LEVIN_API Whereabouts {
  Stage stage = Stage::kTrain;
  Hook hook = Hook::kNone;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

}  // namespace levin
