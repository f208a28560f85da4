#include "levin/rl/environment.h"

#include "levin/core/base/error.h"

namespace levin {

Environment::~Environment() = default;

KeptState Environment::state() const {
  throw MisuseError("This environment has no state(): override state() and set_state() to store it in checkpoints.");
}

void Environment::set_state(const KeptState&) {
  throw MisuseError("This environment has no set_state(): override state() and set_state() to resume it.");
}

}  // namespace levin
