#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "levin/core/base/fwd.h"
#include "levin/core/checkpoint/checkpoint.h"

namespace levin {

/// Rank 0's checkpoint files, which a thread writes while training continues (Trainer::checkpoint_files()). Work is done in the
/// order of the calls, so a file that replaces another exists before the other is removed. After a failure no more work is
/// done; check() and wait() report it, once.
///
/// The wait for a file system that does not respond, such as that of a server that is down, is limited: it ends with an
/// IoError, the thread is abandoned, and its work changes no more files. Later saves in the same folder are refused.
///
/// Threading: for the training thread, except the work passed to then().
class LEVIN_API BackgroundFiles {
 public:
  /// How long a wait lasts while the file system accepts neither bytes nor a file's name. A second signal ends the wait, too
  /// (HeededSignals).
  struct Limits {
    std::chrono::duration<double> report_after = std::chrono::seconds(10);  ///< after this a line names the file
    std::chrono::duration<double> longest = std::chrono::minutes(30);
  };

  BackgroundFiles();
  /// Waits for pending work; reports an error that check() and wait() have not reported on the console.
  ~BackgroundFiles();
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// Allows folders that were given up again. Called: when an entry point begins.
  void begin(Limits limits);

  /// Writes a checkpoint: copies those of its tensors that are shared, and leaves the rest to the thread. To limit memory it
  /// waits while two copies are queued. The memory of a written copy is reused for the next one, until wait().
  void write(Checkpoint checkpoint, const std::filesystem::path& file);
  /// The same without a copy; waits until it is done, as wait() does.
  void save(Checkpoint checkpoint, const std::filesystem::path& file);
  /// Runs work on files on the thread after all earlier work; `changes`: the files that will exist afterwards (true) or be gone
  /// (false). Work on a folder that was given up is dropped.
  void then(std::function<void()> work, const std::map<std::string, bool>& changes = {});
  /// Calls back from a later check() or wait(), after all earlier work.
  void when_done(std::function<void()> callback);

  /// Registers a file that `write` writes, through this object, within the next release(). Later work waits for it.
  void promise(const std::filesystem::path& file, std::function<void()> write);
  bool has_promised() const { return !promised_.empty(); }
  /// Writes promised files, in order. Called: where a run can be saved.
  void release();
  bool is_releasing() const { return is_releasing_; }

  /// True for a file or link that exists, or will exist after all work.
  bool is_there(const std::filesystem::path& file) const;
  /// True when check() has something to report. Cheap.
  bool has_news() const;
  /// Calls back for finished work. Throws errors of the work, such as an IoError with path and cause.
  void check();
  /// Waits for all work, then check(). Throws IoError when the file system does not respond.
  void wait();

 private:
  struct Job;
  struct Shared;
  /// Work for release().
  struct Promised {
    std::function<void()> give;
    std::map<std::string, bool> changes;
  };

  bool busy() const;  ///< work is pending, or its report
  bool holds_back() const { return !promised_.empty() && !is_releasing_; }
  /// The file system of its folder has not responded.
  bool is_given_up(const std::filesystem::path& file) const;
  void refuse_given_up(const std::filesystem::path& file) const;
  void give(Job job);
  /// Returns the system's error, if any.
  std::error_code start_thread();
  static void work(const std::shared_ptr<Shared>& shared);
  /// Waits, with the lock, until `done`. Throws IoError when the file system does not respond.
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  /// Abandons the thread and throws an IoError with the reason.
  [[noreturn]] void give_up(std::unique_lock<std::mutex>& lock, const std::string& why);

  Limits limits_;
  std::deque<Promised> promised_;
  bool is_releasing_ = false;
  std::shared_ptr<Shared> shared_;  ///< shared with the thread, which may outlive this object
  std::set<std::string> given_up_;  ///< folders whose file system has not responded
  std::thread thread_;
};

}  // namespace levin
