#include "levin/core/base/process_id.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>

namespace levin {
namespace {

struct Stat {
  char state = 'X';
  std::uint64_t start_time = 0;
};

/// Reads /proc/PID/stat: "PID (name) STATE …", with the start time as field 22. The name may hold anything, ')' included.
/// Takes no memory: it is called when there may be none.
std::optional<Stat> read_stat(pid_t process) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(process));
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 1024> text{};
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  if (length <= 0) return std::nullopt;
  const char* field = std::strrchr(text.data(), ')');
  if (field == nullptr) return std::nullopt;
  constexpr const char* kFields = ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64;
  Stat stat;
  return std::sscanf(field, kFields, &stat.state, &stat.start_time) == 2 ? std::optional(stat) : std::nullopt;
}

}  // namespace

ProcessId ProcessId::self() {
  const pid_t number = getpid();
  const auto stat = read_stat(number);
  return {number, stat ? stat->start_time : 0};
}

ProcessState process_state(const ProcessId& process) {
  const auto stat = read_stat(process.number);
  if (!stat || stat->start_time != process.start_time) return ProcessState::kGone;
  if (stat->state == 'Z' || stat->state == 'X') return ProcessState::kGone;
  return stat->state == 'T' || stat->state == 't' ? ProcessState::kStopped : ProcessState::kRunning;
}

}  // namespace levin
