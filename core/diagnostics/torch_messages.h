#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "levin/core/batch.h"

namespace levin {

/// Advice for LibTorch's most frequent errors, and for those that a device may report late; "" for others.
std::string hint_for_torch_error(const c10::Error& error);

/// "x [32, 4] Float, y [32] Long": the keys of a batch with shapes and types, for an error's text.
std::string describe_batch(const Batch& batch);

/// The scope of a batch's work. An error that leaves it stores the batch's description.
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

/// Prints LibTorch's warnings through the console, once each and once for all ranks; otherwise they break the progress bar.
class TorchWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override;
};

}  // namespace levin
