#pragma once

#include <string>

namespace levin {

/// This build: "levin 0.1.0, LibTorch 2.13.0, g++ 12.2, Release".
std::string build_info();

}  // namespace levin
