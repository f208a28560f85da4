#include "levin/core/console/core_contention.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "levin/core/base/format.h"
#include "levin/core/base/quiet_thread.h"
#include "levin/core/console/console.h"

namespace levin {
namespace {

constexpr auto kBetweenLooks = std::chrono::seconds(2);
constexpr std::int64_t kLeast = 500'000'000;
/// On cores of their own threads wait for a few percent of the time at most.
constexpr double kContended = 0.2;

}  // namespace

CoreUse read_core_use() {
  CoreUse use;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/task", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    CoreUse::Times times;
    const std::filesystem::path& task = entry->path();
    // A thread may end meanwhile; a kernel without scheduler statistics gives zeros.
    if (std::ifstream(task / "schedstat") >> times.ran >> times.waited) {
      use.threads[static_cast<pid_t>(std::atol(task.filename().c_str()))] = times;
    }
  }
  return use;
}

std::optional<double> waiting_share(const CoreUse& before, const CoreUse& after) {
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  for (const auto& [thread, now] : after.threads) {
    const auto earlier = before.threads.find(thread);
    if (earlier == before.threads.end()) continue;
    ran += now.ran - earlier->second.ran;
    waited += now.waited - earlier->second.waited;
  }
  if (ran <= 0 || ran + waited < kLeast) return std::nullopt;
  return static_cast<double>(waited) / static_cast<double>(ran + waited);
}

ContentionWatch::ContentionWatch(int threads, std::function<void(const std::string&)> warn)
    : threads_(threads), warn_(std::move(warn)) {
  if (!warn_) warn_ = [](const std::string& text) { rank_warn_once(text); };
  if (threads_ <= 1) return;
  try {
    thread_ = quiet_thread([this] { run(); });
  } catch (const std::system_error&) {
    // A run does without the warning.
  }
}

ContentionWatch::~ContentionWatch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ContentionWatch::run() {
  CoreUse before = read_core_use();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kBetweenLooks, [this] { return stop_; })) {
    CoreUse after = read_core_use();
    const auto share = waiting_share(before, after);
    if (share && *share > kContended) {
      warn_(format(
          "cores are busy: the threads of this process were ready to run but without a core for {} % of the last 2 s. Other "
          "programs, or more threads than cores, take them; what {} threads compute together waits for the slowest. "
          "trainer.threads: {} is the fastest for small models.",
          std::lround(*share * 100), threads_, threads_ > 2 ? format("{} leaves a core to others; 1", threads_ - 1) : "1"));
      return;
    }
    before = std::move(after);
  }
}

}  // namespace levin
