#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/text.h"

namespace levin::cli {

/// The devices of this machine, such as its GPUs, divided among the trials that run at a time, each of which sees its part
/// alone. Nothing is divided where a run says which devices it takes, or where there are not two.
class TrialDevices {
 public:
  TrialDevices() = default;
  /// Of trials with these options, `jobs` at a time. Throws ConfigError as Accelerator::device_count() does.
  TrialDevices(const TrainerOptions& options, std::size_t jobs);

  /// The variable of the trial that takes this slot among those at a time, from 0: "CUDA_VISIBLE_DEVICES=2,3". With more
  /// slots than devices some share one. Empty: it sees all.
  std::string variable(std::size_t slot) const {
    return parts_.empty() ? "" : name_ + "=" + join(parts_[slot % parts_.size()], ",");
  }

 private:
  std::string name_;
  std::vector<std::vector<std::string>> parts_;
};

}  // namespace levin::cli
