#pragma once

#include <functional>
#include <string>
#include <vector>

#include "levin/levin_c.h"

namespace levin::c {

/// Calls a function of the C interface. An exception becomes its status, and levin_last_error()'s text.
levin_status guarded(const std::function<void()>& call);

[[noreturn]] void throw_null(const char* name);

/// Throws MisuseError unless a pointer that the caller gave points to something. `name`: "session".
template <class Pointed>
void require(Pointed* pointer, const char* name) {
  if (pointer == nullptr) throw_null(name);
}

/// Texts that the caller gave. Throws MisuseError where one of them is none.
inline std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* name) {
  if (count > 0) require(texts, name);
  std::vector<std::string> all;
  for (size_t index = 0; index < count; ++index) {
    require(texts[index], (std::string(name) + "[i]").c_str());
    all.emplace_back(texts[index]);
  }
  return all;
}

}  // namespace levin::c
