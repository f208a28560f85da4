#pragma once

#include <algorithm>
#include <string>

#include "levin/callbacks/severity.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/run_check.h"

namespace levin {

/// Options and decisions that checks have in common.
template <class O>
class CheckWithOptions : public WithOptions<RunCheck, O> {
 protected:
  using WithOptions<RunCheck, O>::WithOptions;
  bool finding_is_error() const override { return this->options_.fail == Severity::kError; }
  bool is_ignored(const std::string& name) const {
    return std::ranges::any_of(this->options_.ignore, [&](const std::string& part) { return name.starts_with(part); });
  }
};

}  // namespace levin
