#include "levin/core/base/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace levin {

std::string class_name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         std::free);
  const std::string full = status == 0 ? demangled.get() : type.name();
  const std::size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

}  // namespace levin
