#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <istream>
#include <map>
#include <string>

#include "levin/core/base/machine_memory.h"

namespace levin::detail {

/// In tenths of a per cent, as psutil rounds.
inline double percent_of(double part, double whole) { return whole > 0 ? std::round(part / whole * 1000) / 10 : 0; }

/// How busy this machine's processors are, from one reading of /proc/stat to the next.
class ProcessorLoad {
 public:
  /// `stat`: the text of /proc/stat, which counts from the machine's start. Gives the share of time in which processors worked
  /// since the last look, in per cent; of the first look, since the start.
  double read(std::istream& stat) {
    // Those of guests count in `user` and `nice` too.
    enum { kUser, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal, kFields };
    std::array<double, kFields> now{};
    std::string name;
    stat >> name;
    for (double& ticks : now) stat >> ticks;
    double all = 0;
    double waiting = 0;
    for (std::size_t field = 0; field < kFields; ++field) {
      // What a processor waited for may be counted again when it comes back.
      const double passed = std::max(0.0, now[field] - before_[field]);
      all += passed;
      if (field == kIdle || field == kIoWait) waiting += passed;
    }
    before_ = now;
    return percent_of(all - waiting, all);
  }

 private:
  std::array<double, 8> before_{};
};

/// How much of the machine's memory is in use, and of the swap space, in per cent, by Lightning's names.
inline std::map<std::string, double> memory_load(std::istream& meminfo) {
  std::map<std::string, double> bytes = machine_memory(meminfo);
  const auto used = [&](const char* total, const char* free) { return percent_of(bytes[total] - bytes[free], bytes[total]); };
  return {{"cpu_vm_percent", used("MemTotal", "MemAvailable")}, {"cpu_swap_percent", used("SwapTotal", "SwapFree")}};
}

}  // namespace levin::detail
