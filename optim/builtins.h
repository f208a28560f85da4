#pragma once

namespace levin {

/// Adds the factories of PyTorch's optimizers and learning-rate schedulers to their registries, under PyTorch's names. Called
/// once, when the library is loaded.
void register_builtin_optimizers();

}  // namespace levin
