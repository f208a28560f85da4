#include "levin/core/engine/parts/item_queue.h"

#include <chrono>
#include <numeric>
#include <string>
#include <system_error>
#include <typeinfo>
#include <variant>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"

namespace levin {
namespace {

/// "log_image("samples") of step 120": what an error of it begins with.
std::string call_text(const LoggedItem& item) {
  return format("log_{}({}) of step {}", kind_name(item.kind()), quoted_text(item.name), item.step);
}

std::size_t index_of(LoggedItem::Kind kind) { return static_cast<std::size_t>(kind); }

std::size_t bytes_of(const std::string& text) { return sizeof(text) + text.size(); }

template <class Number>
std::size_t bytes_of(const std::vector<Number>& numbers) {
  return numbers.size() * sizeof(Number);
}

std::size_t bytes_of(const std::vector<std::string>& texts) {
  return std::accumulate(texts.begin(), texts.end(), std::size_t{0},
                         [](std::size_t bytes, const std::string& text) { return bytes + bytes_of(text); });
}

/// The memory that contents take while they wait.
struct ContentBytes {
  std::size_t operator()(const LoggedImage& image) const { return image.png.size(); }
  std::size_t operator()(const LoggedHistogram& histogram) const {
    return bytes_of(histogram.limits) + bytes_of(histogram.counts);
  }
  std::size_t operator()(const LoggedText& text) const { return text.text.size(); }
  std::size_t operator()(const Table& table) const {
    std::size_t bytes = bytes_of(table.columns);
    for (const std::vector<Value>& row : table.rows) {
      bytes += sizeof(row) + row.size() * sizeof(Value);
      for (const Value& cell : row) bytes += cell.is_string() ? bytes_of(cell.as_string()) : 0;
    }
    return bytes;
  }
  std::size_t operator()(const LoggedFile& file) const { return file.path.native().size(); }
  std::size_t operator()(const LoggedFigure& figure) const {
    std::size_t bytes = bytes_of(figure.columns) + bytes_of(figure.rows) + figure.image.png.size();
    for (const auto& series : figure.series) bytes += bytes_of(series.name) + bytes_of(series.x) + bytes_of(series.y);
    return bytes;
  }
};

}  // namespace

ItemQueue::ItemQueue(Bounds bounds) : bounds_(bounds) {}

ItemQueue::~ItemQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    items_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ItemQueue::open(std::vector<std::shared_ptr<Logger>> loggers) {
  {
    const std::lock_guard lock(mutex_);
    loggers_ = std::move(loggers);
    if (!items_.empty()) unfinished_ = std::make_shared<UnfinishedWork>();
  }
  changed_.notify_all();
}

bool ItemQueue::fits(const WaitingItem& item) const {
  return items_.size() < bounds_.items && bytes_ + item.bytes <= bounds_.bytes;
}

void ItemQueue::give(WaitingItem item) {
  Count& count = counts_.at(index_of(item.item.kind()));
  item.bytes += sizeof(item) + item.item.name.size() + std::visit(ContentBytes(), item.item.content);
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (loggers_ && loggers_->empty()) return;
    ++count.given;
    if (!fits(item)) {
      ++count.dropped;
      return;
    }
    try {
      if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw IoError(
          format("{}: the system gives no thread to pass it on ({}). Allow this user or container more processes and "
                 "threads.",
                 call_text(item.item), error.code().message()));
    }
    if (loggers_ && !unfinished_) unfinished_ = std::make_shared<UnfinishedWork>();
    bytes_ += item.bytes;
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void ItemQueue::finish() {
  std::exception_ptr error;
  bool by_signal = false;
  {
    constexpr std::chrono::milliseconds kBetweenLooks(100);
    std::unique_lock lock(mutex_);
    if (!loggers_) items_.clear();  // none has been opened, nor will be
    while (!changed_.wait_for(lock, kBetweenLooks, [this] { return items_.empty() && !at_work_; })) {
      if (!HeededSignals::is_pending() || items_.empty()) continue;
      by_signal = true;
      drop_waiting();
    }
    loggers_.reset();
    bytes_ = 0;
    error = std::exchange(error_, nullptr);
  }
  tell_dropped(by_signal);
  if (error) std::rethrow_exception(error);
}

void ItemQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || (loggers_ && !items_.empty()); });
    if (ends_) return;
    WaitingItem waiting = std::move(items_.front());
    items_.pop_front();
    const std::size_t bytes = waiting.bytes;
    const Loggers loggers = *loggers_;
    at_work_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      hand_over(std::move(waiting), loggers);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    at_work_ = false;
    bytes_ -= bytes;
    if (error) {
      error_ = error;
      items_.clear();
      bytes_ = 0;
    }
    if (items_.empty()) unfinished_.reset();
    changed_.notify_all();
  }
}

void ItemQueue::hand_over(WaitingItem waiting, const Loggers& loggers) {
  LoggedItem& item = waiting.item;
  try {
    if (waiting.complete) waiting.complete(item);
    waiting.complete = nullptr;  // the tensor goes before a slow logger is at work
    for (std::size_t index = 0; index < loggers.size(); ++index) {
      const auto& logger = *loggers[index];
      if (loggers[index]->log_item(item) || !not_shown_.emplace(index, item.kind()).second) continue;
      const std::string_view kind = kind_name(item.kind());
      rank_zero_info(format("{} shows no {}s: what log_{}() gives goes past it", class_name_of(typeid(logger)), kind, kind));
    }
  } catch (Error& error) {
    error.set_place(call_text(item));
    throw;
  }
}

void ItemQueue::drop_waiting() {
  for (const WaitingItem& waiting : items_) {
    ++counts_.at(index_of(waiting.item.kind())).dropped;
    bytes_ -= waiting.bytes;
  }
  items_.clear();
}

void ItemQueue::tell_dropped(bool by_signal) {
  for (std::size_t kind = 0; kind < kItemKinds; ++kind) {
    const Count count = std::exchange(counts_[kind], {});
    if (count.dropped == 0) continue;
    const std::string why = by_signal ? "a signal came before the loggers had all."
                                      : format("no more than {} and {} MB may wait for the loggers. Log them less often.",
                                               counted(bounds_.items, "item"), bounds_.bytes >> 20);
    Console::instance().warn(
        format("Dropped {} of {}: {}", count.dropped,
               counted(static_cast<std::size_t>(count.given), kind_name(static_cast<LoggedItem::Kind>(kind))), why));
  }
}

}  // namespace levin
