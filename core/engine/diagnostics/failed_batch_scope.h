#pragma once

#include <exception>
#include <optional>
#include <string>

#include "levin/core/batch.h"
#include "levin/core/engine/diagnostics/torch_error_hints.h"

namespace levin {

/// The time in which a batch is in work. An error that leaves it leaves the batch's description behind.
class FailedBatchScope {
 public:
  /// Both outlive the scope.
  FailedBatchScope(std::string& failed, const std::optional<Batch>& batch) : failed_(failed), batch_(batch) {}
  ~FailedBatchScope() {
    if (std::uncaught_exceptions() <= exceptions_ || !batch_) return;
    try {
      failed_ = describe_batch(*batch_);
    } catch (...) {  // the error that is leaving counts
    }
  }
  FailedBatchScope(const FailedBatchScope&) = delete;
  FailedBatchScope& operator=(const FailedBatchScope&) = delete;

 private:
  std::string& failed_;
  const std::optional<Batch>& batch_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace levin
