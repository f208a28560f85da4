#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "levin/core/checkpoint/checkpoint.h"

namespace levin {

/// Some of a checkpoint's tensors, by name; the checkpoint must outlive it. std::ranges::subrange does not compile with clang
/// 14 and libstdc++ 12.
class TensorRange {
 public:
  using Iterator = std::map<std::string, at::Tensor>::const_iterator;

  TensorRange(Iterator begin, Iterator end) : begin_(begin), end_(end) {}
  Iterator begin() const { return begin_; }
  Iterator end() const { return end_; }

 private:
  Iterator begin_;
  Iterator end_;
};

/// The tensors whose names begin with `prefix`.
inline TensorRange tensors_with_prefix(const Checkpoint& checkpoint, std::string_view prefix) {
  const auto first = checkpoint.tensors.lower_bound(std::string(prefix));
  const auto last = std::find_if_not(first, checkpoint.tensors.end(),
                                     [prefix](const auto& entry) { return entry.first.starts_with(prefix); });
  return {first, last};
}

}  // namespace levin
