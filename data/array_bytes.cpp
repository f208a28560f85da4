#include "levin/data/array_bytes.h"

#include <algorithm>
#include <bit>

namespace levin {

void to_native_order(std::span<char> data, std::size_t width, bool data_is_big_endian) {
  if (width < 2 || data_is_big_endian == (std::endian::native == std::endian::big)) return;
  for (std::size_t begin = 0; begin + width <= data.size(); begin += width) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(begin), data.begin() + static_cast<std::ptrdiff_t>(begin + width));
  }
}

std::optional<std::size_t> array_bytes(std::span<const std::int64_t> shape, std::size_t width) {
  auto bytes = static_cast<std::int64_t>(width);
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    is_empty = is_empty || size == 0;
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<std::size_t>(bytes);
}

}  // namespace levin
