#include "levin/core/callback.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

namespace levin {

Callback::~Callback() = default;

std::string Callback::state_key() const { return class_name(); }

std::string Callback::class_name() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status),
                                                         std::free);
  const std::string full = status == 0 ? demangled.get() : typeid(*this).name();
  const std::size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

}  // namespace levin
