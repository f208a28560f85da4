#include "levin/core/base/process.h"

#include <utility>

namespace levin {

namespace {
thread_local LaunchPermit* innermost = nullptr;
}

std::atomic<int> OwnProcess::scopes_{0};

LaunchPermit::LaunchPermit(int call) : call_(call), outer_(std::exchange(innermost, this)) {}
LaunchPermit::~LaunchPermit() { innermost = outer_; }
LaunchPermit* LaunchPermit::current() { return innermost; }

void LaunchPermit::end_with(Outcome outcome) {
  outcome_ = std::move(outcome);
  throw RanksHaveEnded();  // NOLINT(bugprone-std-exception-baseclass): no handler of errors on the way shall take it for one
}

}  // namespace levin
