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

/// Rank 0's files of checkpoints, which a thread writes while training goes on (Trainer::checkpoint_files()). What is given is
/// done in the order in which it was given, so a file that replaces another is there before the other goes. After a failure
/// nothing more is done: what fails is told by check() and wait(), once.
///
/// A file system that does not answer, such as that of a server that is away, is not waited for without end: the thread is left
/// behind, with an IoError, and nothing that it was given changes a file any more. What is to be saved in the same folder from
/// there on is refused.
///
/// Threading: for the thread that trains, but for what is passed to then().
class LEVIN_API BackgroundFiles {
 public:
  /// For how long a file system may take nothing, neither bytes nor a file's name, while somebody waits for it. A signal that
  /// asks again ends the wait, too (HeededSignals).
  struct Limits {
    std::chrono::duration<double> told = std::chrono::seconds(10);  ///< after this a line says what is waited for
    std::chrono::duration<double> longest = std::chrono::minutes(30);
  };

  BackgroundFiles();
  /// Waits for what is under way; an error that nobody has asked for is told on the console.
  ~BackgroundFiles();
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// File systems that were given up are tried again. Called: when an entry point begins.
  void begin(Limits limits);

  /// Writes a checkpoint: takes a copy of its tensors but for those that nobody else has, and leaves the rest to the thread. As
  /// long as two copies wait, it waits: so much memory it may take. The memory of a copy that is written is kept for the next
  /// one, until wait().
  void write(Checkpoint checkpoint, const std::filesystem::path& file);
  /// The same without a copy, and waits until it is done, as wait() does.
  void save(Checkpoint checkpoint, const std::filesystem::path& file);
  /// Does some work on files when all before is done, on the thread; `changes` says which files will be there afterwards, and
  /// which not any more.
  void then(std::function<void()> work, const std::map<std::string, bool>& changes = {});
  /// Calls back from a later check() or wait(), when all before is done.
  void when_done(std::function<void()> tell);

  /// A file that `write` writes, by this object, within the next release(). What is given after it waits for that, too.
  void promise(const std::filesystem::path& file, std::function<void()> write);
  bool has_promised() const { return !promised_.empty(); }
  /// Has what was promised done, in order. Called: where a run can be saved.
  void release();
  bool is_releasing() const { return is_releasing_; }

  /// True for a file or link that is there, or will be when all is done.
  bool is_there(const std::filesystem::path& file) const;
  /// True when check() has something to tell. Costs next to nothing.
  bool has_news() const;
  /// Tells what is done. Throws what failed, such as an IoError with path and cause.
  void check();
  /// check(), when all is done. Throws IoError when the file system does not answer.
  void wait();

 private:
  struct Job;
  struct Shared;
  /// What release() does.
  struct Promised {
    std::function<void()> give;
    std::map<std::string, bool> changes;
  };

  bool busy() const;  ///< something is to be done, or to be told
  bool holds_back() const { return !promised_.empty() && !is_releasing_; }
  void refuse_given_up(const std::filesystem::path& file) const;
  void give(Job job);
  /// Gives what the system has against it.
  std::error_code start_thread();
  static void work(const std::shared_ptr<Shared>& shared);
  /// Waits, with the lock, until it is so. Throws IoError when the file system does not answer.
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  /// Leaves the thread behind, and says why.
  [[noreturn]] void give_up(std::unique_lock<std::mutex>& lock, const std::string& why);

  Limits limits_;
  std::deque<Promised> promised_;
  bool is_releasing_ = false;
  std::shared_ptr<Shared> shared_;  ///< with the thread, which may live longer
  std::set<std::string> given_up_;  ///< folders whose file system has not answered
  std::thread thread_;
};

}  // namespace levin
