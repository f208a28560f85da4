#include "levin/strategies/transport/combine_values.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

using Op = CombineOp;

template <class T>
constexpr bool kIsShort = std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;
template <class T>
constexpr bool kIsFloating = kIsShort<T> || std::is_floating_point_v<T>;
/// What values are combined in.
template <class T, class = void>
struct Wide {
  using type = T;
};
template <class T>
struct Wide<T, std::enable_if_t<kIsShort<T>>> {
  using type = float;
};
template <class T>
struct Wide<T, std::enable_if_t<std::is_integral_v<T>>> {
  using type = std::conditional_t<(sizeof(T) < 4), std::int32_t, T>;
};

template <Op kOp, class W>
W combined(W one, W other) {
  if constexpr (kOp == Op::kSum || kOp == Op::kAverage || kOp == Op::kProduct) {
    constexpr bool kIsProduct = kOp == Op::kProduct;
    if constexpr (std::is_integral_v<W>) {
      // Integers wrap around, which signed ones may not by themselves.
      using Unsigned = std::make_unsigned_t<W>;
      const auto left = static_cast<Unsigned>(one);
      const auto right = static_cast<Unsigned>(other);
      return static_cast<W>(kIsProduct ? left * right : left + right);
    } else {
      return kIsProduct ? one * other : one + other;
    }
  } else {
    if constexpr (std::is_floating_point_v<W>) {
      if (std::isnan(one)) return one;
      if (std::isnan(other)) return other;
    }
    return kOp == Op::kMin ? std::min(one, other) : std::max(one, other);
  }
}

/// Two ranks, the usual case, in one pass.
template <class T, Op kOp>
void combine_two(T* __restrict result, const T* __restrict one, const T* __restrict other, std::size_t elements) {
  using W = typename Wide<T>::type;
  for (std::size_t index = 0; index < elements; ++index) {
    W value = combined<kOp, W>(static_cast<W>(one[index]), static_cast<W>(other[index]));
    if constexpr (kOp == Op::kAverage) value *= W(0.5);
    result[index] = static_cast<T>(value);
  }
}

template <class T, Op kOp>
void combine_all(std::byte* result, std::span<const std::byte* const> parts, std::size_t elements) {
  using W = typename Wide<T>::type;
  const auto values_of = [&](std::size_t rank) { return reinterpret_cast<const T*>(parts[rank]); };
  T* const out = reinterpret_cast<T*>(result);
  if (parts.size() == 2) return combine_two<T, kOp>(out, values_of(0), values_of(1), elements);
  constexpr std::size_t kBlock = 512;
  std::array<W, kBlock> block;
  for (std::size_t begin = 0; begin < elements; begin += kBlock) {
    const std::size_t length = std::min(kBlock, elements - begin);
    for (std::size_t i = 0; i < length; ++i) block[i] = static_cast<W>(values_of(0)[begin + i]);
    for (std::size_t rank = 1; rank < parts.size(); ++rank) {
      const T* const values = values_of(rank) + begin;
      for (std::size_t i = 0; i < length; ++i) block[i] = combined<kOp, W>(block[i], static_cast<W>(values[i]));
    }
    if constexpr (kOp == Op::kAverage) {
      const W part = W(1) / static_cast<W>(parts.size());
      for (std::size_t i = 0; i < length; ++i) block[i] *= part;
    }
    for (std::size_t i = 0; i < length; ++i) out[begin + i] = static_cast<T>(block[i]);
  }
}

template <class T>
SharedMemoryCollectives::Combine combine_of(Op op) {
  if constexpr (kIsFloating<T>) {
    if (op == Op::kAverage) return combine_all<T, Op::kAverage>;
  }
  switch (op) {
    case Op::kSum:
      return combine_all<T, Op::kSum>;
    case Op::kProduct:
      return combine_all<T, Op::kProduct>;
    case Op::kMin:
      return combine_all<T, Op::kMin>;
    case Op::kMax:
      return combine_all<T, Op::kMax>;
    case Op::kAverage:
      break;
  }
  return nullptr;
}

SharedMemoryCollectives::Combine combine_of(Op op, c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return combine_of<float>(op);
    case c10::ScalarType::Double:
      return combine_of<double>(op);
    case c10::ScalarType::Half:
      return combine_of<c10::Half>(op);
    case c10::ScalarType::BFloat16:
      return combine_of<c10::BFloat16>(op);
    case c10::ScalarType::Bool:
      return combine_of<bool>(op);  // a sum is "or", a product "and"
    case c10::ScalarType::Byte:
      return combine_of<std::uint8_t>(op);
    case c10::ScalarType::Char:
      return combine_of<std::int8_t>(op);
    case c10::ScalarType::Short:
      return combine_of<std::int16_t>(op);
    case c10::ScalarType::Int:
      return combine_of<std::int32_t>(op);
    case c10::ScalarType::Long:
      return combine_of<std::int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace

const char* combine_op_name(CombineOp op) {
  constexpr std::array kNames = {"sum", "average", "product", "min", "max"};
  return kNames.at(static_cast<std::size_t>(op));
}

SharedMemoryCollectives::Combine find_combine(CombineOp op, c10::ScalarType type) { return combine_of(op, type); }

SharedMemoryCollectives::Combine combine_values(CombineOp op, c10::ScalarType type) {
  if (const auto combine = find_combine(op, type)) return combine;
  throw MisuseError(format("values of {} cannot be reduced to their {} over ranks", c10::toString(type), combine_op_name(op)));
}

}  // namespace levin
