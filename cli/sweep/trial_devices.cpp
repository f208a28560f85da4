#include "levin/cli/sweep/trial_devices.h"

#include <algorithm>
#include <cstdlib>

#include "levin/core/accelerator.h"
#include "levin/core/base/text.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {

TrialDevices::TrialDevices(const TrainerOptions& options, std::size_t jobs) {
  if (jobs < 2 || !options.devices.is_auto()) return;
  LaunchRequest request;
  request.accelerator = options.accelerator;
  const std::shared_ptr<Accelerator> accelerator = request.chosen_accelerator();
  name_ = accelerator->visibility_variable();
  if (name_.empty()) return;
  const auto count = static_cast<std::size_t>(accelerator->device_count());
  if (count < 2) return;
  std::vector<std::string> devices;
  if (const char* const visible = std::getenv(name_.c_str())) devices = split(visible, ",");
  if (devices.size() < count) devices.clear();
  for (std::size_t index = devices.size(); index < count; ++index) devices.push_back(std::to_string(index));
  const std::size_t parts = std::min(jobs, count);
  for (std::size_t part = 0; part < parts; ++part) {
    const auto first = devices.begin() + static_cast<std::ptrdiff_t>(part * count / parts);
    const auto last = devices.begin() + static_cast<std::ptrdiff_t>((part + 1) * count / parts);
    parts_.emplace_back(first, last);
  }
}

}  // namespace levin::cli
