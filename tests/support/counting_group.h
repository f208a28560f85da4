#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"

namespace levin::testing {

/// The traffic of a group, on one rank, without what groups themselves add.
struct ExchangeCounts {
  std::size_t exchanges = 0;
  std::size_t given = 0;  ///< bytes from this rank
  std::size_t got = 0;    ///< bytes from all, including its own if it gets them back

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
  std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) override {
    ++counts_.exchanges;
    counts_.given += mine.size();
    std::vector<std::string> parts = group_.gather(mine, longest, what);
    for (const std::string& part : parts) counts_.got += part.size();
    return parts;
  }
  std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) override {
    ++counts_.exchanges;
    if (rank() == root) counts_.given += mine.size();
    std::string received = group_.broadcast(mine, root, longest, what);
    counts_.got += received.size();
    return received;
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
