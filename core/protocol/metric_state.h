#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace levin {

/// What a metric object has taken in: how it is kept, how it travels and how a checkpoint holds it.
struct MetricState {
  std::vector<double> numbers{};    ///< of all add_numbers(), one after another
  std::vector<std::string> rows{};  ///< of each add_rows(): the bytes of its rows, one after another
  std::int64_t updates = 0;         ///< how often something has been taken in; 0: nothing yet

  bool empty() const { return updates == 0; }
};

}  // namespace levin
