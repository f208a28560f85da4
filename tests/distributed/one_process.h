#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace levin::test {

/// What one process would compute: in each window the mean over every batch of every rank. Rank r's batches hold the numbers
/// 10 r, 10 r + 1, …
struct OneProcess {
  OneProcess(const std::vector<int>& batches, int accumulate) {
    const int most = *std::max_element(batches.begin(), batches.end());
    double sum = 0;
    int count = 0;
    for (int start = 0; start < most; start += accumulate) {
      double window = 0;
      int in_window = 0;
      for (std::size_t rank = 0; rank < batches.size(); ++rank) {
        for (int index = start; index < std::min(start + accumulate, batches[rank]); ++index) {
          window += 10.0 * static_cast<double>(rank) + index;
          ++in_window;
        }
      }
      weight -= window / in_window;
      sum += window;
      count += in_window;
      ++steps;
    }
    mean = sum / count;
  }
  double weight = 0;
  double mean = 0;
  int steps = 0;
};

}  // namespace levin::test
