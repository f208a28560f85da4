#include <ATen/core/Tensor.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "levin/core/base/byte_reader.h"
#include "levin/data/dataset.h"

namespace levin {

namespace {

constexpr std::int64_t kElements = 2048;

/// Calls `read` with some of `size` places, one at random in each of so many equal stretches: places at equal distances might
/// all be of one column. The same on every host.
template <class Read>
void sample_places(std::int64_t size, std::int64_t wanted, const Read& read) {
  const std::int64_t stretches = std::min(size, wanted);
  std::uint64_t random = 1;
  for (std::int64_t stretch = 0; stretch < stretches; ++stretch) {
    // In steps that do not overflow for any size.
    const auto start_of = [&](std::int64_t index) { return size / stretches * index + size % stretches * index / stretches; };
    const std::int64_t begin = start_of(stretch);
    random = random * 6364136223846793005U + 1442695040888963407U;
    read(begin + static_cast<std::int64_t>((random >> 33) % static_cast<std::uint64_t>(start_of(stretch + 1) - begin)));
  }
}

/// The bytes of an element, by its place in the order of rows.
std::string_view element(const at::Tensor& tensor, std::int64_t place) {
  std::int64_t offset = 0;
  for (std::int64_t dimension = tensor.dim() - 1; dimension >= 0; --dimension) {
    const std::int64_t size = tensor.size(dimension);
    offset += place % size * tensor.stride(dimension);
    place /= size;
  }
  const auto bytes = static_cast<std::int64_t>(tensor.element_size());
  return {static_cast<const char*>(tensor.const_data_ptr()) + offset * bytes, static_cast<std::size_t>(bytes)};
}

bool has_readable_elements(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

void DataFingerprint::add_bytes(std::string_view bytes) {
  Fnv1aHash hash;
  hash.add_number(hash_);
  hash.add(bytes);
  hash_ = hash.value();
}

DataFingerprint& DataFingerprint::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  add_bytes(text);
  return *this;
}

DataFingerprint& DataFingerprint::add(std::int64_t number) {
  add_bytes({reinterpret_cast<const char*>(&number), sizeof number});
  return *this;
}

DataFingerprint& DataFingerprint::add(std::span<const std::int64_t> numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  add(size);
  sample_places(size, kElements, [&](std::int64_t place) { add(numbers[static_cast<std::size_t>(place)]); });
  return *this;
}

DataFingerprint& DataFingerprint::add(const Batch& tensors) {
  // Of many tensors a few elements each.
  const std::int64_t of_each =
      std::max<std::int64_t>(kElements / std::max<std::int64_t>(static_cast<std::int64_t>(tensors.size()), 1), 8);
  for (const auto& [name, tensor] : tensors.items()) {
    std::ostringstream kind;
    kind << name << '|';
    if (tensor.defined()) kind << tensor.sizes() << '|' << tensor.scalar_type();
    add(kind.str());
    if (!has_readable_elements(tensor)) continue;
    sample_places(tensor.numel(), of_each, [&, &values = tensor](std::int64_t place) { add_bytes(element(values, place)); });
  }
  return *this;
}

}  // namespace levin
