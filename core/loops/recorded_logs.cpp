#include "levin/core/loops/recorded_logs.h"

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

void RecordedLogs::add(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where) {
  if (value.device() != device_) refuse_number(name);
  calls_.push_back({std::string(name), value.detach(), options, where});
}

void RecordedLogs::refuse_number(std::string_view name) const {
  throw MisuseError(format("log(\"{}\") was given a number that is not on {}", name, c10::str(device_)));
}

void RecordedLogs::log(Module& module) const {
  // Of its own: the next step computes another value in the same place, and this one may not have been read by then.
  for (const Call& call : calls_) module.log(call.name, call.value.clone(), call.options, call.where);
}

}  // namespace levin
