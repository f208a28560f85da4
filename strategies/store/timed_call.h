#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "levin/core/quiet_thread.h"

namespace levin {

/// Makes a call that has no time limit of its own, on a thread of its own. Nothing when it has not ended by the deadline; the
/// thread then stays behind, and `call` must own all that it uses. Throws what the call throws.
template <class Call>
auto call_until(std::chrono::steady_clock::time_point deadline, Call call) -> std::optional<std::invoke_result_t<Call>> {
  std::packaged_task<std::invoke_result_t<Call>()> task(std::move(call));
  auto result = task.get_future();
  quiet_thread(std::move(task)).detach();
  if (result.wait_until(deadline) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace levin
