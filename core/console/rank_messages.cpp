#include "levin/core/console/rank_messages.h"

namespace levin {

void rank_zero_only(const std::function<void()>& function) {
  if (Console::instance().rank() == 0) function();
}

}  // namespace levin
