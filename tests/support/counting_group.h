#pragma once

#include <cstddef>
#include <span>

#include "levin/core/protocol/control_group.h"

namespace levin::testing {

/// What passed through a group, on one rank.
struct ExchangeCounts {
  std::size_t exchanges = 0;
  std::size_t given = 0;  ///< bytes from this rank
  std::size_t got = 0;    ///< bytes from all

  bool operator==(const ExchangeCounts&) const = default;
};

/// A group that counts.
class CountingGroup final : public ControlGroup {
 public:
  explicit CountingGroup(ControlGroup& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override {
    ++counts_.exchanges;
    counts_.given += mine.size();
    counts_.got += all.size();
    group_.all_gather(mine, all, what);
  }
  /// Since the last call.
  ExchangeCounts take() {
    const ExchangeCounts taken = counts_;
    counts_ = {};
    return taken;
  }

 private:
  ControlGroup& group_;
  ExchangeCounts counts_;
};

}  // namespace levin::testing
