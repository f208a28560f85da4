#include "levin/loggers/builtins.h"

namespace levin {

void register_builtin_loggers() {}

}  // namespace levin
