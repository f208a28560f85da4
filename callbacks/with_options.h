#pragma once

#include <string>
#include <utility>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"

namespace levin {

/// A Base (Callback or Profiler) with options: checks and stores them, and gives them as its settings.
template <class Base, class O>
class LEVIN_API WithOptions : public Base {
 public:
  using Options = O;

  Value settings() const override { return write_options(options_); }
  const O& options() const { return options_; }

 protected:
  /// Throws ConfigError as checked() does.
  WithOptions(const std::string& class_name, O options) : options_(checked(class_name, std::move(options))) {}

  O options_;
};

}  // namespace levin
