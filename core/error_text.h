#pragma once

#include <exception>
#include <string>

namespace levin {

/// What an exception says to a person: what(), but for LibTorch's own errors without the backtrace that they carry.
std::string error_text(const std::exception& error);

}  // namespace levin
