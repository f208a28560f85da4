#pragma once

#include <c10/util/Exception.h>

namespace levin {

/// Prints LibTorch's own warnings through the console: once each, and once for all ranks. Else each rank repeats them, and they
/// tear the progress bar.
class TorchWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override;
};

}  // namespace levin
