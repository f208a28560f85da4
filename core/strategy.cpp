#include "levin/core/strategy.h"

namespace levin {

Strategy::~Strategy() = default;
std::shared_ptr<Strategy> Strategy::resolve(const LaunchRequest&) { return nullptr; }

}  // namespace levin
