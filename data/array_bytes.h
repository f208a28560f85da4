#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace levin {

/// Turns each element of `width` bytes around, when the data's byte order is not the machine's.
void to_native_order(std::span<char> data, std::size_t width, bool data_is_big_endian);
/// Bytes of an array of this shape; nullopt when its sizes, those of 0 left aside, have no meaningful product.
std::optional<std::size_t> array_bytes(std::span<const std::int64_t> shape, std::size_t width);

}  // namespace levin
