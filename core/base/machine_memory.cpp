#include "levin/core/base/machine_memory.h"

#include <limits>

namespace levin {

std::map<std::string, double> machine_memory(std::istream& meminfo) {
  std::map<std::string, double> bytes;
  std::string name;
  for (double kibibytes = 0; std::getline(meminfo, name, ':') && meminfo >> kibibytes;) {
    bytes[name] = 1024 * kibibytes;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return bytes;
}

}  // namespace levin
