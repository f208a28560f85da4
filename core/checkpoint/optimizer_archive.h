#pragma once

#include <ATen/core/Tensor.h>

#include "levin/core/fwd.h"

namespace levin {

/// The state of an optimizer whose class does not name it, as its save() writes it to LibTorch's archive, in bytes. Throws
/// MisuseError when it has state that save() does not write.
at::Tensor archive_optimizer(const torch::optim::Optimizer& optimizer);

/// Hands such bytes to its load(). Throws ConfigError when they are no archive, or load() does not take it.
void load_optimizer_archive(torch::optim::Optimizer& optimizer, const at::Tensor& archive);

}  // namespace levin
