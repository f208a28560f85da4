#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "levin/strategies/host/shared_memory_collectives.h"

namespace levin {

enum class CombineOp : std::uint8_t { kSum, kAverage, kProduct, kMin, kMax };

/// How values of a type are combined: a NaN stays one in a minimum and a maximum too. Values of 16 bits are
/// summed in 32. Throws MisuseError for other types, and for the average of integers.
SharedMemoryCollectives::Combine combine_values(CombineOp op, c10::ScalarType type);
/// The same, but null for other types and the average of integers.
SharedMemoryCollectives::Combine find_combine(CombineOp op, c10::ScalarType type);
/// "sum"
const char* combine_op_name(CombineOp op);

}  // namespace levin
