#pragma once

#include <exception>
#include <string>

namespace levin {

/// The text of an exception for users: what(), for LibTorch's errors without the backtrace; its type if what() is empty.
std::string error_text(const std::exception& error);
/// The same for an exception of any type; `error` is not null.
std::string error_text(const std::exception_ptr& error);

/// The exit status of a program that does not catch it: levin's errors have their own, all others 1.
int exit_code_of(const std::exception& error);

}  // namespace levin
