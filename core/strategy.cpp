#include "levin/core/strategy.h"

namespace levin {

Strategy::~Strategy() = default;
std::shared_ptr<Strategy> Strategy::resolve(const LaunchRequest&) { return nullptr; }
std::string Strategy::description() const { return name(); }
std::optional<std::string> Strategy::failure_elsewhere() const { return std::nullopt; }

}  // namespace levin
