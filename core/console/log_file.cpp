#include "levin/core/console/log_file.h"

#include <fcntl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {
namespace {

class DescriptorSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}
  ~DescriptorSink() override { ::close(descriptor_); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view text(line.data(), line.size());
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw spdlog::spdlog_ex(std::strerror(errno));
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void flush_() override {}

 private:
  int descriptor_;
};

int open_for_appending(const std::filesystem::path& path, int rank) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor >= 0) return descriptor;
  const std::string reason = errno == ELOOP ? "it is a symbolic link. Name the file that it leads to" : std::strerror(errno);
  throw IoError(format("log_file: rank {} cannot open {}: {}", rank, path, reason));
}

}  // namespace

std::shared_ptr<spdlog::logger> open_log_file(const std::filesystem::path& path, int rank, int error_fd) {
  auto logger = std::make_shared<spdlog::logger>("levin", std::make_shared<DescriptorSink>(open_for_appending(path, rank)));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
  logger->set_level(spdlog::level::trace);
  logger->set_error_handler([path, error_fd, told = false](const std::string& reason) mutable {
    if (!std::exchange(told, true)) write_whole(error_fd, format("error: cannot write {}: {}\n", path, reason));
  });
  return logger;
}

}  // namespace levin
