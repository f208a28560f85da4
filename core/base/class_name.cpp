#include "levin/core/base/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace levin {

std::string full_class_name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? demangled.get() : type.name();
}

std::string class_name_of(const std::type_info& type) {
  const std::string full = full_class_name_of(type);
  // From the end: what a template's arguments hold within brackets is no namespace of the class.
  int open = 0;
  for (std::size_t end = full.size(); end > 1; --end) {
    const char letter = full[end - 1];
    if (letter == '>' || letter == ')') ++open;
    if (letter == '<' || letter == '(') --open;
    if (open == 0 && letter == ':' && full[end - 2] == ':') return full.substr(end);
  }
  return full;
}

}  // namespace levin
