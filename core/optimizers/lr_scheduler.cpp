#include "levin/core/optimizers/lr_scheduler.h"

namespace levin {

LrScheduler::~LrScheduler() = default;

}  // namespace levin
