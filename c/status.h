#pragma once

#include <functional>

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

}  // namespace levin::c
