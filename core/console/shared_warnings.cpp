#include "levin/core/console/shared_warnings.h"

#include <mutex>
#include <utility>

namespace levin {

namespace {

struct Shared {
  std::mutex mutex;
  FirstInRun first_in_run;
};

Shared& shared() {
  // Never destroyed: threads may still warn at the very end.
  static auto* const shared = new Shared;
  return *shared;
}

}  // namespace

void share_warnings(FirstInRun first_in_run) {
  const std::lock_guard lock(shared().mutex);
  shared().first_in_run = std::move(first_in_run);
}

bool detail::is_first_in_run(std::string_view text) {
  const std::lock_guard lock(shared().mutex);
  return !shared().first_in_run || shared().first_in_run(text);
}

}  // namespace levin
