#pragma once

#include <exception>
#include <string>

namespace levin {

/// What an exception says to a person: what(), of LibTorch's errors without their backtrace; of one that says nothing its type.
std::string error_text(const std::exception& error);
/// The same of an exception of any type; `error` is not null.
std::string error_text(const std::exception_ptr& error);

/// The status with which a program ends that does not catch it: levin's own errors have theirs, all others 1.
int exit_code_of(const std::exception& error);

}  // namespace levin
