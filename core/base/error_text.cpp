#include "levin/core/base/error_text.h"

#include <c10/util/Exception.h>
#include <cxxabi.h>

#include <cstdlib>
#include <new>
#include <string_view>
#include <typeinfo>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

namespace {

std::string name_of(const std::type_info* type) { return type == nullptr ? "unknown" : full_class_name_of(*type); }

}  // namespace

std::string error_text(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return format("out of memory ({})", error.what());
  // As PyTorch does it: LibTorch's own calls say nothing to most.
  const char* wanted = std::getenv("TORCH_SHOW_CPP_STACKTRACES");
  const bool with_calls = wanted != nullptr && std::string_view(wanted) != "0";
  const std::string text = of_torch != nullptr && !with_calls ? of_torch->what_without_backtrace() : error.what();
  return text.empty() ? format("an exception of type {} without a text", name_of(&typeid(error))) : text;
}

std::string error_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return error_text(known);
  } catch (...) {
    return format("an exception of type {}, which is not a std::exception", name_of(abi::__cxa_current_exception_type()));
  }
}

int exit_code_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return own == nullptr ? 1 : own->exit_code();
}

}  // namespace levin
