#include "levin/core/base/error_text.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <new>
#include <string_view>

#include "levin/core/base/format.h"

namespace levin {

std::string error_text(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return format("out of memory ({})", error.what());
  // As PyTorch does it: LibTorch's own calls say nothing to most.
  const char* wanted = std::getenv("TORCH_SHOW_CPP_STACKTRACES");
  const bool with_calls = wanted != nullptr && std::string_view(wanted) != "0";
  return of_torch != nullptr && !with_calls ? of_torch->what_without_backtrace() : error.what();
}

std::string error_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return error_text(known);
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace levin
