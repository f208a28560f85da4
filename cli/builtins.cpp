#include "levin/strategies/builtins.h"

namespace levin {
namespace {

// The library is one shared object, so this initializer always runs when it is loaded.
const bool kRegistered = [] {
  register_builtin_strategies();
  return true;
}();

}  // namespace
}  // namespace levin
