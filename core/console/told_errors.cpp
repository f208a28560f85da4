#include "levin/core/console/told_errors.h"

#include <mutex>
#include <set>

namespace levin {

namespace {

struct Told {
  std::mutex mutex;
  std::set<std::string> errors;
};

Told& told() {
  // Never destroyed: threads may still report errors at the very end.
  static auto* const told = new Told;
  return *told;
}

}  // namespace

void mark_error_told(const std::string& what) {
  const std::lock_guard lock(told().mutex);
  told().errors.insert(what);
}

bool error_was_told(const std::string& what) {
  const std::lock_guard lock(told().mutex);
  return told().errors.contains(what);
}

}  // namespace levin
