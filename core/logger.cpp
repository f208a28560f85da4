#include "levin/core/logger.h"

namespace levin {

Logger::~Logger() = default;

std::vector<std::filesystem::path> Logger::earlier_runs(const RunInfo&) const {
  const std::filesystem::path folder = log_dir();
  return folder.empty() ? std::vector<std::filesystem::path>() : std::vector{folder};
}

}  // namespace levin
