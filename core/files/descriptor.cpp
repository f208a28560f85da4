#include "levin/core/files/descriptor.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>

namespace levin {

bool is_ready_by(std::chrono::steady_clock::time_point deadline, int descriptor, short events) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{descriptor, events, 0};
    if (poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000))) > 0) return true;
  }
}

}  // namespace levin
