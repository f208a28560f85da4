#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace levin {

/// Weights that are drawn from in proportion, in logarithmic time: a binary tree whose nodes have the sums of their children
/// (Schaul et al. 2016, "Prioritized experience replay", appendix B.2.1). A sum depends on its children alone, so that equal
/// weights give equal bits in whichever order they were set.
class SumTree {
 public:
  SumTree() = default;
  explicit SumTree(std::int64_t size) : leaves_(leaves_of(size)), nodes_(2 * leaves_) {}

  static std::int64_t bytes(std::int64_t size) { return static_cast<std::int64_t>(2 * leaves_of(size) * sizeof(double)); }

  void set(std::int64_t index, double weight) {
    std::size_t node = leaves_ + static_cast<std::size_t>(index);
    nodes_[node] = weight;
    while (node > 1) {
      node /= 2;
      nodes_[node] = nodes_[2 * node] + nodes_[2 * node + 1];
    }
  }
  double weight(std::int64_t index) const { return nodes_[leaves_ + static_cast<std::size_t>(index)]; }
  double total() const { return nodes_[1]; }
  /// The index whose share of the total contains `position`, from [0, total()). Never one of weight 0.
  std::int64_t find(double position) const {
    std::size_t node = 1;
    while (node < leaves_) {
      const std::size_t left = 2 * node;
      // Sums are rounded, so that a position near the end may lie beyond the last weight.
      if (position < nodes_[left] || nodes_[left + 1] == 0) {
        node = left;
      } else {
        position -= nodes_[left];
        node = left + 1;
      }
    }
    return static_cast<std::int64_t>(node - leaves_);
  }

 private:
  static std::size_t leaves_of(std::int64_t size) { return std::bit_ceil(static_cast<std::size_t>(size)); }

  std::size_t leaves_ = 0;
  std::vector<double> nodes_;  ///< the root is 1, the children of node i are 2 i and 2 i + 1
};

}  // namespace levin
