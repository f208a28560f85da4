#pragma once

#include <spdlog/logger.h>

#include <filesystem>
#include <memory>

namespace levin {

/// Opens a rank's log file for appending; makes it and its folder when missing. A symbolic link in the file's place is refused:
/// in a folder of another user it may lead to any file of this one's. `error_fd`: where to say, once, that writing failed.
/// Throws: IoError.
std::shared_ptr<spdlog::logger> open_log_file(const std::filesystem::path& path, int rank, int error_fd);

}  // namespace levin
