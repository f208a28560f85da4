#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

namespace levin {

class Checkpoint;

/// Puts a tensor into a checkpoint. One that is sparse is kept as two, of its indices and values as they lie: those of several
/// elements with one index are not added up before a run that is not interrupted adds them.
void save_tensor(Checkpoint& checkpoint, const std::string& name, const at::Tensor& tensor);

/// The sparse tensor of this name and shape; undefined where there is none. Throws ConfigError where its indices do not fit.
at::Tensor saved_sparse_tensor(const Checkpoint& checkpoint, const std::string& name, at::IntArrayRef sizes);

/// What the sparse tensor is called of which `part` is the indices.
std::optional<std::string> name_of_sparse_tensor(std::string_view part);
/// `part` is the values of a sparse tensor.
bool is_of_sparse_values(std::string_view part);

}  // namespace levin
