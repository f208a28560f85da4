#include "levin/core/profiler.h"

namespace levin {

Profiler::~Profiler() = default;

}  // namespace levin
