#include "levin/core/media/item_queue.h"

#include <algorithm>
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

std::size_t bytes_of(const std::string& text) { return sizeof(std::string) + text.size(); }

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
      bytes += sizeof(std::vector<Value>) + row.size() * sizeof(Value);
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
    std::unique_lock lock(shared_->mutex);
    shared_->ends = true;
    shared_->items.clear();
    shared_->changed.notify_all();
    if (!wait_for_idle(lock)) {
      lock.unlock();
      leave_behind();
    }
  }
  if (thread_.joinable()) thread_.join();
}

void ItemQueue::open(std::vector<std::shared_ptr<Logger>> loggers) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->loggers = std::move(loggers);
    if (!shared_->items.empty()) shared_->exit_guard = std::make_shared<ExitGuard>();
  }
  shared_->changed.notify_all();
}

bool ItemQueue::fits(const WaitingItem& item) const {
  return shared_->items.size() < bounds_.items && shared_->bytes + item.bytes <= bounds_.bytes;
}

void ItemQueue::give(WaitingItem item) {
  Count& count = counts_.at(index_of(item.item.kind()));
  item.bytes += sizeof(item) + item.item.name.size() + std::visit(ContentBytes(), item.item.content);
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
    if (shared_->loggers && shared_->loggers->empty()) return;
    ++count.given;
    if (!fits(item)) {
      ++count.dropped;
      return;
    }
    try {
      if (!thread_.joinable()) thread_ = quiet_thread([shared = shared_] { work(shared); });
    } catch (const std::system_error& error) {
      throw IoError(
          format("{}: cannot start a thread to pass it on ({}). Allow this user or container more processes and "
                 "threads.",
                 call_text(item.item), error.code().message()));
    }
    if (shared_->loggers && !shared_->exit_guard) shared_->exit_guard = std::make_shared<ExitGuard>();
    shared_->bytes += item.bytes;
    shared_->items.push_back(std::move(item));
  }
  shared_->changed.notify_all();
}

bool ItemQueue::wait_for_idle(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::milliseconds kBetweenLooks(100);
  std::optional<std::chrono::steady_clock::time_point> end;  // from a signal on
  const auto is_idle = [this] { return shared_->items.empty() && shared_->at_work.empty(); };
  while (!shared_->changed.wait_for(lock, std::min(kBetweenLooks, bounds_.patience), is_idle)) {
    if (!HeededSignals::is_pending()) continue;
    if (!shared_->items.empty()) {
      dropped_by_signal_ = true;
      drop_waiting();
    }
    const auto now = std::chrono::steady_clock::now();
    if (!end) end = now + bounds_.patience;
    if (now >= *end) return is_idle();
  }
  return true;
}

void ItemQueue::leave_behind() {
  const std::shared_ptr<Shared> left = std::exchange(shared_, std::make_shared<Shared>());
  thread_.detach();
  std::string call;
  {
    const std::lock_guard lock(left->mutex);
    left->ends = true;
    left->exit_guard.reset();
    call = left->at_work;
  }
  Console::instance().warn(
      format("A logger has not returned from {} for {} s after a signal, and is abandoned: its items may be lost.", call,
             std::chrono::duration<double>(bounds_.patience).count()));
}

void ItemQueue::finish() {
  std::exception_ptr error;
  bool is_stuck = false;
  {
    std::unique_lock lock(shared_->mutex);
    if (!shared_->loggers) shared_->items.clear();  // none has been opened, nor will be
    is_stuck = !wait_for_idle(lock);
    shared_->loggers.reset();
    shared_->bytes = 0;
    error = std::exchange(shared_->error, nullptr);
  }
  if (is_stuck) leave_behind();
  report_dropped(std::exchange(dropped_by_signal_, false));
  if (error) std::rethrow_exception(error);
}

void ItemQueue::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->ends || (shared->loggers && !shared->items.empty()); });
    if (shared->ends) return;
    WaitingItem waiting = std::move(shared->items.front());
    shared->items.pop_front();
    const std::size_t bytes = waiting.bytes;
    const Loggers loggers = *shared->loggers;
    shared->at_work = call_text(waiting.item);
    lock.unlock();
    std::exception_ptr error;
    try {
      hand_over(std::move(waiting), loggers, *shared);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    shared->at_work.clear();
    shared->bytes -= std::min(shared->bytes, bytes);
    if (error) {
      shared->error = error;
      shared->items.clear();
      shared->bytes = 0;
    }
    if (shared->items.empty()) shared->exit_guard.reset();
    shared->changed.notify_all();
  }
}

void ItemQueue::hand_over(WaitingItem waiting, const Loggers& loggers, Shared& shared) {
  LoggedItem& item = waiting.item;
  try {
    if (waiting.complete) waiting.complete(item);
    waiting.complete = nullptr;  // the tensor goes before a slow logger is at work
    for (std::size_t index = 0; index < loggers.size(); ++index) {
      const auto& logger = *loggers[index];
      if (loggers[index]->log_item(item) || !shared.not_shown.emplace(index, item.kind()).second) continue;
      const std::string_view kind = kind_name(item.kind());
      rank_zero_info(format("{} does not show {}s: it ignores log_{}()", class_name_of(typeid(logger)), kind, kind));
    }
  } catch (Error& error) {
    error.set_place(call_text(item));
    throw;
  }
}

void ItemQueue::drop_waiting() {
  for (const WaitingItem& waiting : shared_->items) {
    ++counts_.at(index_of(waiting.item.kind())).dropped;
    shared_->bytes -= waiting.bytes;
  }
  shared_->items.clear();
}

void ItemQueue::report_dropped(bool by_signal) {
  for (std::size_t kind = 0; kind < kItemKinds; ++kind) {
    const Count count = std::exchange(counts_[kind], {});
    if (count.dropped == 0) continue;
    const std::string why = by_signal ? "a signal came before the loggers had received all."
                                      : format("the queue for the loggers holds at most {} and {} MB. Log them less often.",
                                               counted(bounds_.items, "item"), bounds_.bytes >> 20);
    Console::instance().warn(
        format("Dropped {} of {}: {}", count.dropped,
               counted(static_cast<std::size_t>(count.given), kind_name(static_cast<LoggedItem::Kind>(kind))), why));
  }
}

}  // namespace levin
