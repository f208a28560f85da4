#include "levin/core/base/process.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>

#include "levin/core/base/text.h"

namespace levin {

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string program_as_typed(const std::string& word) {
  namespace fs = std::filesystem;
  const std::string name = fs::path(word).filename();
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "", ":")) {
    const fs::path found = fs::path(folder) / name;
    std::error_code error;
    if (!fs::is_regular_file(found, error) || access(found.c_str(), X_OK) != 0) continue;
    return word == name || fs::equivalent(found, word, error) ? name : word;
  }
  return word;
}

std::atomic<bool> ThreadExitGuard::process_ends_{false};

namespace {

thread_local int scopes_of_thread = 0;

/// What is at work in the process.
struct Work {
  /// Never destroyed: threads may end at any time.
  static Work& instance() {
    static auto* const work = new Work;
    return *work;
  }
  std::mutex mutex;
  std::condition_variable changed;
  int pieces = 0;        ///< with a near end
  int threads = 0;       ///< without
  bool is_over = false;  ///< static objects go

  void begin(int& count) {
    std::unique_lock lock(mutex);
    if (is_over) sleep_for_ever(lock);
    ++count;
  }
  void end(int& count) {
    const std::lock_guard lock(mutex);
    --count;
    changed.notify_all();
  }
  [[noreturn]] static void sleep_for_ever(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    while (true) pause();
  }
};

}  // namespace

/// The last to wait: destroyed after all that the program has made, and before what this library depends on.
struct ThreadExitGuard::EndOfProcess {
  EndOfProcess() { Work::instance(); }
  EndOfProcess(const EndOfProcess&) = delete;
  EndOfProcess& operator=(const EndOfProcess&) = delete;
  ~EndOfProcess() { end_work(/*is_over=*/true); }
};
const ThreadExitGuard::EndOfProcess ThreadExitGuard::end_of_process_;

ExitGuard::ExitGuard() { Work::instance().begin(Work::instance().pieces); }
ExitGuard::~ExitGuard() { Work::instance().end(Work::instance().pieces); }

ThreadExitGuard::ThreadExitGuard() {
  if (scopes_of_thread++ > 0) return;
  Work::instance().begin(Work::instance().threads);
  watch_exit();
}
ThreadExitGuard::~ThreadExitGuard() {
  if (--scopes_of_thread == 0) Work::instance().end(Work::instance().threads);
}

void ThreadExitGuard::watch_exit() {
  // What exit() calls cannot be taken back; and after so many entry points nothing new is made.
  constexpr int kMostCalls = 64;
  static std::atomic<int> calls = 0;
  if (calls >= kMostCalls) return;
  if (const int before = calls++; before < kMostCalls) std::atexit([] { end_work(/*is_over=*/false); });
}

void ThreadExitGuard::end_work(bool is_over) {
  Work& work = Work::instance();
  std::unique_lock lock(work.mutex);
  process_ends_ = true;
  const int own = scopes_of_thread > 0 ? 1 : 0;
  work.changed.wait_for(lock, std::chrono::seconds(10), [&] { return work.threads == own || !process_ends_; });
  work.changed.wait_for(lock, std::chrono::seconds(60), [&] { return work.pieces == 0; });
  work.is_over = is_over;
}

void ThreadExitGuard::block() {
  if (scopes_of_thread == 0) return;
  Work& work = Work::instance();
  std::unique_lock lock(work.mutex);
  if (!process_ends_) return;
  --work.threads;
  work.changed.notify_all();
  work.changed.wait(lock, [&] { return !process_ends_; });
  ++work.threads;
}

void ThreadExitGuard::release() {
  if (!process_ends_) return;
  Work& work = Work::instance();
  const std::lock_guard lock(work.mutex);
  if (!work.is_over) process_ends_ = false;
  work.changed.notify_all();
}

}  // namespace levin
