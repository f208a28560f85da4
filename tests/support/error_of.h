#pragma once

#include <exception>
#include <string>

namespace levin::test {

/// The text of the error of this kind that `call` throws; "" for none.
template <class Error, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The text of a stored error; "" for none.
inline std::string error_of(const std::exception_ptr& error) {
  return error_of<std::exception>([&] {
    if (error) std::rethrow_exception(error);
  });
}

}  // namespace levin::test
