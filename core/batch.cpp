#include "levin/core/batch.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

namespace {

std::string describe_content(const std::vector<Batch::Item>& items) {
  if (items.empty()) return "the batch is empty";
  std::vector<std::string> named;
  for (const auto& [name, tensor] : items) {
    if (!name.empty()) named.push_back(format("\"{}\"", name));
  }
  const std::size_t unnamed = items.size() - named.size();
  if (named.empty()) return format("the batch holds {} tensors without names: use batch[0], batch[1], …", unnamed);
  return format("the batch holds {}{}", join(named), unnamed > 0 ? format(" and {} without a name", unnamed) : "");
}

auto find_item(const std::vector<Batch::Item>& items, std::string_view name) {
  return std::ranges::find_if(items, [name](const Batch::Item& item) { return item.first == name; });
}

template <class Change>
Batch transform(const std::vector<Batch::Item>& items, Change change) {
  std::vector<Batch::Item> changed;
  changed.reserve(items.size());
  for (const auto& [name, tensor] : items) changed.emplace_back(name, tensor.defined() ? change(tensor) : tensor);
  return Batch(std::move(changed));
}

}  // namespace

Batch Batch::of(std::vector<at::Tensor> tensors) {
  std::vector<Item> items;
  items.reserve(tensors.size());
  for (at::Tensor& tensor : tensors) items.emplace_back(std::string(), std::move(tensor));
  return Batch(std::move(items));
}

const at::Tensor& Batch::operator[](std::size_t position) const {
  if (position >= items_.size()) {
    throw MisuseError(format("batch[{}]: there is no tensor at this position; {}", static_cast<std::int64_t>(position),
                             describe_content(items_)));
  }
  return items_[position].second;
}

const at::Tensor& Batch::operator[](std::string_view name) const {
  const auto item = find_item(items_, name);
  if (item == items_.end()) {
    throw MisuseError(format("batch[\"{}\"]: there is no tensor of this name; {}", name, describe_content(items_)));
  }
  return item->second;
}

bool Batch::contains(std::string_view name) const { return find_item(items_, name) != items_.end(); }

void Batch::set(std::string name, at::Tensor tensor) {
  const auto item = name.empty() ? items_.cend() : find_item(items_, name);
  if (item == items_.cend()) {
    items_.emplace_back(std::move(name), std::move(tensor));
  } else {
    items_[static_cast<std::size_t>(item - items_.cbegin())].second = std::move(tensor);
  }
}

std::int64_t Batch::batch_size() const {
  bool has_tensor = false;
  for (const auto& [name, tensor] : items_) {
    if (!tensor.defined()) continue;
    if (tensor.dim() > 0) return tensor.size(0);
    has_tensor = true;
  }
  return has_tensor ? 1 : 0;
}

Batch Batch::to(const at::Device& device, bool non_blocking) const {
  return transform(items_, [&](const at::Tensor& tensor) { return tensor.to(device, non_blocking); });
}

Batch Batch::to(at::ScalarType floating_type) const {
  return transform(items_,
                   [&](const at::Tensor& tensor) { return tensor.is_floating_point() ? tensor.to(floating_type) : tensor; });
}

Batch Batch::to(at::MemoryFormat format) const {
  return transform(items_, [&](const at::Tensor& tensor) { return tensor.dim() == 4 ? tensor.contiguous(format) : tensor; });
}

Batch Batch::pin_memory() const {
  if (at::accelerator::deviceCount() == 0) return *this;
  return transform(items_, [](const at::Tensor& tensor) { return tensor.is_cpu() ? tensor.pin_memory() : tensor; });
}

}  // namespace levin
