#pragma once

#include <istream>
#include <map>
#include <string>

namespace levin {

/// What a text such as /proc/meminfo says of a machine's memory, in bytes, by its names: "MemTotal", "MemAvailable".
std::map<std::string, double> machine_memory(std::istream& meminfo);

}  // namespace levin
