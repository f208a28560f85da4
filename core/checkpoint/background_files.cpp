#include "levin/core/checkpoint/background_files.h"

#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// One file has one name here, however its path is written.
std::string name_of(const fs::path& file) { return fs::absolute(file).lexically_normal().string(); }

}  // namespace

BackgroundFiles::BackgroundFiles() = default;

BackgroundFiles::~BackgroundFiles() {
  try {
    wait();
  } catch (const std::exception& error) {
    Console::instance().error(error_text(error));
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundFiles::write(Checkpoint checkpoint, const fs::path& file) {
  constexpr std::size_t kMostCopies = 2;
  Checkpoint memory;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return copies_ < kMostCopies; });
    memory = std::exchange(spare_, {});
  }
  const auto copy = std::make_shared<Checkpoint>(std::move(checkpoint).copy(std::move(memory)));
  const auto save = [this, copy, file] {
    copy->save(file);
    const std::lock_guard lock(mutex_);
    std::swap(spare_, *copy);  // an older one goes with the copy, when the lock is gone
  };
  give({.work = save, .changes = {{name_of(file), true}}, .tell = {}, .holds_copy = true});
}

void BackgroundFiles::then(std::function<void()> work, const std::map<std::string, bool>& changes) {
  if (!busy()) return work();
  std::map<std::string, bool> named;
  for (const auto& [file, there] : changes) named[name_of(file)] = there;
  give({.work = std::move(work), .changes = std::move(named), .tell = {}});
}

void BackgroundFiles::when_done(std::function<void()> tell) {
  if (!busy()) return tell();
  give({.work = {}, .changes = {}, .tell = std::move(tell)});
}

void BackgroundFiles::give(Job job) {
  job.unfinished = std::make_shared<UnfinishedWork>();
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    try {
      if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw IoError(
          format("Checkpoints cannot be written in the background: the system gives no thread for it ({}). Allow this "
                 "user or container more processes and threads, or set ModelCheckpoint's async to false.",
                 error.code().message()));
    }
    if (job.holds_copy) ++copies_;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void BackgroundFiles::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    // It stays in the list meanwhile: the file is not there yet.
    std::function<void()> work = std::move(jobs_.front().work);
    std::exception_ptr error;
    lock.unlock();
    try {
      if (work) work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;  // the copy goes before anybody hears of the room for the next
    lock.lock();
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job.holds_copy) --copies_;
    if (error) {
      error_ = error;
      jobs_.clear();
      copies_ = 0;
    } else if (job.tell) {
      done_.push_back(job.tell);
    }
    if (error_ || !done_.empty()) has_news_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
}

bool BackgroundFiles::is_there(const fs::path& file) const {
  const std::string name = name_of(file);
  {
    const std::lock_guard lock(mutex_);
    for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
      const auto change = job->changes.find(name);
      if (change != job->changes.end()) return change->second;
    }
  }
  std::error_code error;
  return fs::exists(fs::symlink_status(file, error));
}

bool BackgroundFiles::busy() const {
  const std::lock_guard lock(mutex_);
  return !jobs_.empty() || has_news();
}

void BackgroundFiles::check() {
  if (!has_news()) return;
  std::vector<std::function<void()>> done;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    has_news_.store(false, std::memory_order_relaxed);
    done.swap(done_);
    error = std::exchange(error_, nullptr);
  }
  for (const auto& tell : done) tell();
  if (error) std::rethrow_exception(error);
}

void BackgroundFiles::wait() {
  Checkpoint spare;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return jobs_.empty(); });
    std::swap(spare, spare_);
  }
  check();
}

}  // namespace levin
