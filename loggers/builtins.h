#pragma once

namespace levin {

/// Adds every class of this room to its registry. Called once, when the library is loaded.
void register_builtin_loggers();

}  // namespace levin
