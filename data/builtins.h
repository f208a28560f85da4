#pragma once

namespace levin {

/// Adds the data modules of this folder to their registry. Called once, when the library is loaded.
void register_builtin_data();

}  // namespace levin
