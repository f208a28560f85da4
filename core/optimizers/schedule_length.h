#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "levin/core/error.h"
#include "levin/core/export.h"

namespace levin {

/// How many steps a schedule takes in all of training: what an option of a scheduler stands for that YAML leaves out, as
/// OneCycleLR's total_steps. A scheduler class whose constructor takes one, after the optimizer and the options, is given it.
class LEVIN_API ScheduleLength {
 public:
  /// Not known, as in C++: an option that is left out is an error.
  ScheduleLength() = default;
  /// `steps`: unset when not known; called when a schedule needs it, as it may take the training loader. `place`: of the
  /// scheduler, for errors.
  ScheduleLength(std::function<std::optional<std::int64_t>()> steps, Mark place);

  /// `given`; where it is unset the steps of all of training, at least 1. Throws ConfigError where these are not known, with
  /// the names of both.
  std::int64_t unless(const std::optional<std::int64_t>& given, const std::string& class_name, const std::string& option) const;
  /// Of a schedule that is due from step `begin` on, until step `end`; unset: until the end.
  ScheduleLength part(std::int64_t begin, std::optional<std::int64_t> end, const Mark& place) const;

 private:
  std::function<std::optional<std::int64_t>()> steps_;
  Mark place_;
};

}  // namespace levin
