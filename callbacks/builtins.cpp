#include "levin/callbacks/builtins.h"

namespace levin {

void register_builtin_callbacks() {}

}  // namespace levin
