#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/checkpoint/checkpoint.h"

namespace levin {

/// Rank 0's files of checkpoints, which a thread writes while training goes on (Trainer::checkpoint_files()). What is given is
/// done in the order in which it was given, so a file that replaces another is there before the other goes. After a failure
/// nothing more is done: what fails is told by check() and wait(), once.
///
/// Threading: for the thread that trains, but for what is passed to then().
class LEVIN_API BackgroundFiles {
 public:
  BackgroundFiles();
  /// Waits for what is under way; an error that nobody has asked for is told on the console.
  ~BackgroundFiles();
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// Writes a checkpoint: takes a copy of its tensors but for those that nobody else has, and leaves the rest to the thread. As
  /// long as two copies wait, it waits: so much memory it may take. The memory of a copy that is written is kept for the next
  /// one, until wait().
  void write(Checkpoint checkpoint, const std::filesystem::path& file);
  /// Does some work on files when all before is done, on the thread; `changes` says which files will be there afterwards, and
  /// which not any more.
  void then(std::function<void()> work, const std::map<std::string, bool>& changes = {});
  /// Calls back from a later check() or wait(), when all before is done.
  void when_done(std::function<void()> tell);

  /// True for a file or link that is there, or will be when all is done.
  bool is_there(const std::filesystem::path& file) const;
  /// True when check() has something to tell. Costs next to nothing.
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  /// Tells what is done. Throws what failed, such as an IoError with path and cause.
  void check();
  /// check(), when all is done.
  void wait();

 private:
  struct Job {
    std::function<void()> work;
    std::map<std::string, bool> changes;
    std::function<void()> tell;
    bool holds_copy = false;
    std::shared_ptr<void> unfinished{};  ///< exit() waits for it
  };

  bool busy() const;  ///< something is to be done, or to be told
  void give(Job job);
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  ///< the first is under way
  std::size_t copies_ = 0;
  Checkpoint spare_;                         ///< a copy that is written: memory for the next one
  std::vector<std::function<void()>> done_;  ///< to be told
  std::exception_ptr error_;
  std::atomic<bool> has_news_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace levin
