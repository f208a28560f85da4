#include "levin/core/logger.h"

namespace levin {

Logger::~Logger() = default;

}  // namespace levin
