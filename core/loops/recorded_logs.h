#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "levin/core/module.h"

namespace levin {

/// What a training step logs while a device records it: values that are computed anew whenever the step is done again.
class RecordedLogs {
 public:
  explicit RecordedLogs(const at::Device& device) : device_(device) {}

  /// In place of logging it. Throws MisuseError for a value that is not on the device.
  void add(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where);
  /// Throws MisuseError: a number that the host has may be another one in each step.
  [[noreturn]] void refuse_number(std::string_view name) const;
  /// Logs the values as they are now.
  void log(Module& module) const;

 private:
  struct Call {
    std::string name;
    at::Tensor value;
    LogOptions options;
    SourceLocation where;
  };
  at::Device device_;
  std::vector<Call> calls_;
};

}  // namespace levin
