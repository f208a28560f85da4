#include "levin/strategies/builtins.h"

namespace levin {

void register_builtin_strategies() {}

}  // namespace levin
