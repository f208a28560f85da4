#include "levin/loggers/mlflow/upload_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"

namespace levin::mlflow {
namespace {

constexpr std::chrono::seconds kFirstPause(1);
constexpr std::chrono::seconds kLongestPause(60);

}  // namespace

UploadQueue::UploadQueue(const std::filesystem::path& file, const Value& header, const std::string& uri)
    : server_(uri),
      journal_(file, header),
      upload_(journal_, server_),
      reports_(journal_.header().at("rank").as_int() == 0),
      pause_(kFirstPause) {
  server_.set_on_progress([this](std::int64_t bytes) { return may_continue(bytes); });
  thread_ = quiet_thread([this] { work(); });
}

UploadQueue::~UploadQueue() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UploadQueue::add(const Value& entry) {
  journal_.append(entry);
  wake();
}

void UploadQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    has_work_ = true;
  }
  changed_.notify_all();
}

std::string UploadQueue::finish(std::chrono::duration<double> patience) {
  {
    const std::lock_guard lock(mutex_);
    finishes_.emplace(patience);
  }
  changed_.notify_all();
  thread_.join();
  return upload_.rest();
}

bool UploadQueue::wait_for_work() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stops_ || finishes_ || has_work_; });
  if (!finishes_) {
    changed_.wait_for(lock, pause_, [this] { return stops_ || finishes_; });
  } else if (is_away_) {
    changed_.wait_for(lock, kFirstPause, [this] { return stops_; });
  }
  has_work_ = false;
  return !stops_ && !(finishes_ && finishes_->is_over());
}

void UploadQueue::work() {
  while (wait_for_work()) {
    try {
      send();
    } catch (const std::exception& error) {
      note_failure(error.what());
    }
  }
}

void UploadQueue::send() {
  while (true) {
    // Read first, so that an entry that was added just before finish() is sent.
    const bool is_last = finishes();
    if (!upload_.send_next()) {
      if (!is_last) return;
      break;
    }
    note_success();
  }
  upload_.send_later();
  const std::lock_guard lock(mutex_);
  stops_ = true;
}

bool UploadQueue::finishes() {
  const std::lock_guard lock(mutex_);
  return finishes_.has_value();
}

bool UploadQueue::may_continue(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  // A retry of the same bytes is no progress: a server that is stopped takes some each time.
  if (bytes > most_bytes_) {
    most_bytes_ = bytes;
    if (finishes_) finishes_->renew();
  }
  return !stops_ && !(finishes_ && finishes_->is_over());
}

void UploadQueue::note_failure(const std::string& reason) {
  pause_ = std::min<std::chrono::duration<double>>(2 * pause_, kLongestPause);
  if (!std::exchange(is_away_, true) && reports_) {
    rank_zero_warn(format("MLflow at {} does not take what is logged ({}): it is stored in {}, and sent when it does",
                          server_.uri(), reason, as_typed(journal_.file())));
  }
  wake();
}

void UploadQueue::note_success() {
  {
    const std::lock_guard lock(mutex_);
    most_bytes_ = 0;
    if (finishes_) finishes_->renew();
  }
  pause_ = kFirstPause;
  if (std::exchange(is_away_, false) && reports_) rank_zero_info(format("MLflow at {} is back", server_.uri()));
}

}  // namespace levin::mlflow
