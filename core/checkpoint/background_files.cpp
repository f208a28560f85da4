#include "levin/core/checkpoint/background_files.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/file_watch.h"
#include "levin/core/files/remote_file.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// One name for a file, however its path is written.
std::string name_of(const fs::path& file) {
  return is_remote(file.native()) ? file.string() : fs::absolute(file).lexically_normal().string();
}

std::string folder_name_of(const fs::path& file) { return fs::path(name_of(file)).parent_path().string(); }

}  // namespace

struct BackgroundFiles::Job {
  std::function<void()> work;
  std::map<std::string, bool> changes;
  std::function<void()> callback;
  bool holds_copy = false;
  std::shared_ptr<void> exit_guard{};  ///< exit() waits for it
};

/// The thread's data.
struct BackgroundFiles::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;  ///< the first is running
  std::size_t copies = 0;
  Checkpoint spare;                         ///< a written copy: memory for the next one
  std::vector<std::function<void()>> done;  ///< to be called
  std::exception_ptr error;
  std::atomic<bool> has_news = false;
  bool ends = false;
  FileWatch watch;

  /// With the lock, while there is something to do.
  std::string file_under_way() const {
    for (const Job& job : jobs) {
      if (!job.changes.empty()) return job.changes.begin()->first;
    }
    return "the files of a callback";
  }
};

BackgroundFiles::BackgroundFiles() : shared_(std::make_shared<Shared>()) {}

BackgroundFiles::~BackgroundFiles() {
  try {
    wait();
  } catch (const std::exception& error) {
    Console::instance().error(error_text(error));
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ends = true;
  }
  shared_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundFiles::begin(Limits limits) {
  limits_ = limits;
  promised_.clear();
  given_up_.clear();
}

void BackgroundFiles::write(Checkpoint checkpoint, const fs::path& file) {
  constexpr std::size_t kMostCopies = 2;
  refuse_given_up(file);
  Checkpoint memory;
  {
    std::unique_lock lock(shared_->mutex);
    wait_until(lock, [shared = shared_.get()] { return shared->copies < kMostCopies; });
    memory = std::exchange(shared_->spare, {});
  }
  const auto copy = std::make_shared<Checkpoint>(std::move(checkpoint).copy(std::move(memory)));
  const auto save = [shared = shared_.get(), copy, file] {
    copy->save(file);
    const std::lock_guard lock(shared->mutex);
    std::swap(shared->spare, *copy);  // an older one is freed with the copy, after the lock
  };
  give({.work = save, .changes = {{name_of(file), true}}, .callback = {}, .holds_copy = true});
}

void BackgroundFiles::save(Checkpoint checkpoint, const fs::path& file) {
  refuse_given_up(file);
  wait();
  const auto on_host = std::make_shared<Checkpoint>(std::move(checkpoint).on_host());
  if (start_thread()) return on_host->save(file);
  give({.work = [on_host, file] { on_host->save(file); }, .changes = {{name_of(file), true}}, .callback = {}});
  wait();
}

void BackgroundFiles::promise(const fs::path& file, std::function<void()> write) {
  promised_.push_back({std::move(write), {{name_of(file), true}}});
}

void BackgroundFiles::release() {
  is_releasing_ = true;
  const auto back = c10::make_scope_exit([this] { is_releasing_ = false; });
  while (!promised_.empty()) {
    const Promised next = std::move(promised_.front());
    promised_.pop_front();
    next.give();
  }
}

bool BackgroundFiles::is_given_up(const fs::path& file) const { return given_up_.contains(folder_name_of(file)); }

void BackgroundFiles::then(std::function<void()> work, const std::map<std::string, bool>& changes) {
  std::map<std::string, bool> named;
  for (const auto& [file, there] : changes) named[name_of(file)] = there;
  if (holds_back()) return promised_.push_back({[this, work = std::move(work), changes] { then(work, changes); }, named});
  const auto is_dropped = [this](const auto& change) { return is_given_up(change.first); };
  if (std::ranges::any_of(named, is_dropped)) return;
  // On the thread even when nothing is pending: the file system may have stopped responding.
  if (start_thread()) return work();
  give({.work = std::move(work), .changes = std::move(named), .callback = {}});
}

void BackgroundFiles::when_done(std::function<void()> callback) {
  if (holds_back()) return promised_.push_back({[this, callback = std::move(callback)] { when_done(callback); }, {}});
  if (!busy()) return callback();
  give({.work = {}, .changes = {}, .callback = std::move(callback)});
}

void BackgroundFiles::give(Job job) {
  job.exit_guard = std::make_shared<ExitGuard>();
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->error) return;
    if (const std::error_code error = start_thread()) {
      throw IoError(
          format("Cannot write checkpoints in the background: cannot start a thread ({}). Allow this "
                 "user or container more processes and threads, or set ModelCheckpoint's async to false.",
                 error.message()));
    }
    if (job.holds_copy) ++shared_->copies;
    shared_->jobs.push_back(std::move(job));
  }
  shared_->changed.notify_all();
}

std::error_code BackgroundFiles::start_thread() {
  try {
    if (!thread_.joinable()) thread_ = quiet_thread([shared = shared_] { work(shared); });
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  }
}

void BackgroundFiles::work(const std::shared_ptr<Shared>& shared) {
  const WatchedFiles watched(shared->watch);
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->ends || !shared->jobs.empty(); });
    if (shared->jobs.empty()) return;
    // It stays in the list until then: the file does not exist yet.
    std::function<void()> work = std::move(shared->jobs.front().work);
    std::exception_ptr error;
    lock.unlock();
    try {
      if (work) work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;  // the copy is freed before the room for the next is reported
    lock.lock();
    if (shared->watch.is_given_up) return;
    shared->watch.note_progress();
    const Job job = std::move(shared->jobs.front());
    shared->jobs.pop_front();
    if (job.holds_copy) --shared->copies;
    if (error) {
      shared->error = error;
      shared->jobs.clear();
      shared->copies = 0;
    } else if (job.callback) {
      shared->done.push_back(job.callback);
    }
    if (shared->error || !shared->done.empty()) shared->has_news.store(true, std::memory_order_release);
    shared->changed.notify_all();
  }
}

bool BackgroundFiles::is_there(const fs::path& file) const {
  const std::string name = name_of(file);
  for (auto promised = promised_.rbegin(); promised != promised_.rend(); ++promised) {
    const auto change = promised->changes.find(name);
    if (change != promised->changes.end()) return change->second;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    for (auto job = shared_->jobs.rbegin(); job != shared_->jobs.rend(); ++job) {
      const auto change = job->changes.find(name);
      if (change != job->changes.end()) return change->second;
    }
  }
  // A check there would not return.
  if (is_given_up(file)) return false;
  std::error_code error;
  return is_remote(file.native()) ? levin::is_there(file) : fs::exists(fs::symlink_status(file, error));
}

bool BackgroundFiles::has_news() const { return shared_->has_news.load(std::memory_order_acquire); }

bool BackgroundFiles::busy() const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->jobs.empty() || has_news();
}

void BackgroundFiles::check() {
  if (!has_news()) return;
  std::vector<std::function<void()>> done;
  std::exception_ptr error;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->has_news.store(false, std::memory_order_relaxed);
    done.swap(shared_->done);
    error = std::exchange(shared_->error, nullptr);
  }
  for (const auto& callback : done) callback();
  if (error) std::rethrow_exception(error);
}

void BackgroundFiles::wait() {
  Checkpoint spare;
  {
    std::unique_lock lock(shared_->mutex);
    wait_until(lock, [shared = shared_.get()] { return shared->jobs.empty(); });
    std::swap(spare, shared_->spare);
  }
  check();
}

void BackgroundFiles::refuse_given_up(const fs::path& file) const {
  if (!is_given_up(file)) return;
  throw IoError(format("Cannot save '{}': the file system of its folder has stopped responding.", file));
}

void BackgroundFiles::wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  constexpr std::chrono::milliseconds kBetweenLooks(100);
  using Clock = std::chrono::steady_clock;
  bool is_reported = false;
  std::int64_t progress = shared_->watch.progress;
  for (Clock::time_point newest = Clock::now(); !shared_->changed.wait_for(lock, kBetweenLooks, done);) {
    if (HeededSignals::asks_again()) give_up(lock, "a second signal came during the wait for its file system");
    if (std::exchange(progress, shared_->watch.progress) != progress) newest = Clock::now();
    const std::chrono::duration<double> still = Clock::now() - newest;
    if (still >= limits_.longest)
      give_up(lock, format("its file system has not responded for {:.0f} s (timeout_seconds)", still.count()));
    if (is_reported || still < limits_.report_after) continue;
    is_reported = true;
    const std::string file = shared_->file_under_way();
    lock.unlock();
    Console::instance().warn(
        format("Waiting for '{}': its file system has not responded for {:.0f} s. After {:.0f} s (timeout_seconds) the run "
               "ends without it; at once on a second Ctrl-C, or a second SIGTERM ten seconds after the first.",
               file, still.count(), limits_.longest.count()));
    lock.lock();
  }
}

void BackgroundFiles::give_up(std::unique_lock<std::mutex>& lock, const std::string& why) {
  const std::shared_ptr<Shared> left = std::exchange(shared_, std::make_shared<Shared>());
  const std::string file = left->file_under_way();
  const bool was_last = left->jobs.size() == 1;
  left->watch.is_given_up = true;
  left->jobs.clear();
  // Finished work is still reported.
  shared_->done = std::move(left->done);
  shared_->has_news = !shared_->done.empty();
  lock.unlock();
  thread_.detach();
  given_up_.insert(folder_name_of(file));
  throw IoError(format("Cannot save '{}': {}. The previous file is unchanged{}.", file, why,
                       was_last ? "" : ", and all later work is dropped"));
}

}  // namespace levin
