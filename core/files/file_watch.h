#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace levin {

/// Shared by a thread that writes files and one that waits for it. Threading: any.
struct FileWatch {
  std::atomic<std::int64_t> progress = 0;  ///< grows whenever a file system has accepted data
  std::atomic<bool> is_given_up = false;   ///< the wait was given up: rename no more files

  void note_progress() { progress.fetch_add(1, std::memory_order_relaxed); }
};

/// During its lifetime, the AtomicFiles of its thread use a watch, which it does not own.
class WatchedFiles {
 public:
  explicit WatchedFiles(FileWatch& watch) : outer_(std::exchange(current_, &watch)) {}
  ~WatchedFiles() { current_ = outer_; }
  WatchedFiles(const WatchedFiles&) = delete;
  WatchedFiles& operator=(const WatchedFiles&) = delete;

  static void note_progress() {
    if (current_ != nullptr) current_->note_progress();
  }
  static bool are_given_up() { return current_ != nullptr && current_->is_given_up; }

 private:
  inline static thread_local FileWatch* current_ = nullptr;

  FileWatch* outer_;
};

}  // namespace levin
