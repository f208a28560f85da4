#pragma once

#include <istream>
#include <map>
#include <string>

namespace levin {

/// A machine's memory from a text such as /proc/meminfo, in bytes, by its names: "MemTotal", "MemAvailable".
std::map<std::string, double> machine_memory(std::istream& meminfo);

}  // namespace levin
