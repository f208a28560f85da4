#include "levin/core/tuning_callback.h"

namespace levin {

TuningCallback::~TuningCallback() = default;

}  // namespace levin
