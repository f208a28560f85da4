#include "levin/strategies/transport/shared_memory_backend.h"

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

using Op = c10d::ReduceOp::RedOpType;

template <class T>
constexpr bool kIsShort = std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;
template <class T>
constexpr bool kIsFloating = kIsShort<T> || std::is_floating_point_v<T>;
/// What values are combined in.
template <class T>
using Wide =
    std::conditional_t<kIsShort<T>, float, std::conditional_t<(std::is_integral_v<T> && sizeof(T) < 4), std::int32_t, T>>;

template <Op kOp, class W>
W combined(W one, W other) {
  if constexpr (kOp == Op::SUM || kOp == Op::AVG || kOp == Op::PRODUCT) {
    constexpr bool kIsProduct = kOp == Op::PRODUCT;
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
    return kOp == Op::MIN ? std::min(one, other) : std::max(one, other);
  }
}

/// Two ranks, the usual case, in one pass.
template <class T, Op kOp>
void combine_two(T* __restrict result, const T* __restrict one, const T* __restrict other, std::size_t elements) {
  using W = Wide<T>;
  for (std::size_t index = 0; index < elements; ++index) {
    W value = combined<kOp, W>(static_cast<W>(one[index]), static_cast<W>(other[index]));
    if constexpr (kOp == Op::AVG) value *= W(0.5);
    result[index] = static_cast<T>(value);
  }
}

template <class T, Op kOp>
void combine_all(std::byte* result, std::span<const std::byte* const> parts, std::size_t elements) {
  using W = Wide<T>;
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
    if constexpr (kOp == Op::AVG) {
      const W part = W(1) / static_cast<W>(parts.size());
      for (std::size_t i = 0; i < length; ++i) block[i] *= part;
    }
    for (std::size_t i = 0; i < length; ++i) out[begin + i] = static_cast<T>(block[i]);
  }
}

using Combine = SharedMemoryCollectives::Combine;

template <class T, Op kOp>
constexpr Combine combine_with() {
  if constexpr (kOp == Op::AVG && !kIsFloating<T>) {
    return nullptr;
  } else {
    return combine_all<T, kOp>;
  }
}

/// For the one of these types that is `type`. A sum of bools is "or", a product "and".
template <class... T>
Combine find_among(Op op, c10::ScalarType type) {
  static_assert(Op::SUM == 0 && Op::AVG == 1 && Op::PRODUCT == 2 && Op::MIN == 3 && Op::MAX == 4);
  if (op > Op::MAX) return nullptr;
  Combine found = nullptr;
  const auto choose = [&](c10::ScalarType own, const std::array<Combine, 5>& by_op) {
    if (own == type) found = by_op.at(static_cast<std::size_t>(op));
  };
  (choose(c10::CppTypeToScalarType<T>::value,
          {combine_with<T, Op::SUM>(), combine_with<T, Op::AVG>(), combine_with<T, Op::PRODUCT>(), combine_with<T, Op::MIN>(),
           combine_with<T, Op::MAX>()}),
   ...);
  return found;
}

}  // namespace

Combine find_combine(const c10d::ReduceOp& op, c10::ScalarType type) {
  return find_among<float, double, c10::Half, c10::BFloat16, bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t,
                    std::int64_t>(op, type);
}

Combine combine_values(const c10d::ReduceOp& op, c10::ScalarType type) {
  if (const auto combine = find_combine(op, type)) return combine;
  if (op > Op::MAX) {
    throw MisuseError(
        "values travel through shared memory to be summed, averaged, multiplied, or for their minimum or maximum");
  }
  throw MisuseError(format("values of {} cannot be reduced to their {} over ranks", c10::toString(type), reduce_op_name(op)));
}

const char* reduce_op_name(const c10d::ReduceOp& op) {
  constexpr std::array kNames = {"sum", "average", "product", "min", "max"};
  return op > Op::MAX ? "other" : kNames.at(static_cast<std::size_t>(Op(op)));
}

}  // namespace levin
