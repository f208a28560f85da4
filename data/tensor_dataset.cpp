#include "levin/data/dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/data/check_indices.h"

namespace levin {

TensorDataset::TensorDataset(Batch tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) throw MisuseError("TensorDataset: give at least one tensor");
  for (std::size_t position = 0; position < tensors_.size(); ++position) {
    const auto& [name, tensor] = tensors_.items()[position];
    std::ostringstream place;
    place << "TensorDataset: tensor " << position;
    if (!name.empty()) place << " (\"" << name << "\")";
    if (!tensor.defined() || tensor.dim() == 0) throw MisuseError(place.str() + " has no first dimension to find samples in");
    if (position == 0) size_ = tensor.size(0);
    if (tensor.size(0) != size_) {
      place << " has " << tensor.size(0) << " samples, the first tensor has " << size_;
      throw MisuseError(place.str());
    }
  }
}

Batch TensorDataset::get_batch(std::span<const std::int64_t> indices) const {
  check_indices(indices, size_, "TensorDataset");
  const at::Tensor rows = at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong);
  std::copy(indices.begin(), indices.end(), rows.mutable_data_ptr<std::int64_t>());
  std::vector<Batch::Item> selected;
  selected.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_.items()) {
    selected.emplace_back(name, at::index_select(tensor, 0, tensor.is_cpu() ? rows : rows.to(tensor.device())));
  }
  return Batch(std::move(selected));
}

std::optional<std::uint64_t> TensorDataset::fingerprint() const { return DataFingerprint().add(tensors_).value(); }

std::optional<std::int64_t> TensorDataset::bytes_to_copy() const {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors_.items()) {
    if (!tensor.is_cpu()) return std::nullopt;
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes / std::max<std::int64_t>(1, size_);
}

}  // namespace levin
