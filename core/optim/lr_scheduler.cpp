#include "levin/core/optim/lr_scheduler.h"

namespace levin {

LrScheduler::~LrScheduler() = default;

}  // namespace levin
