#pragma once

#include <string>

namespace levin {

/// Notes that a person has been told of an error, with the place where it happened, so that nobody tells it a second time while
/// it leaves the program. Threading: any thread.
void mark_error_told(const std::string& what);
/// True when an error of this text was told in this process.
bool error_was_told(const std::string& what);

}  // namespace levin
