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
  drop_waiting();
  if (!wait_for_idle()) leave_behind();
}

void ItemQueue::open(std::vector<std::shared_ptr<Logger>> loggers) {
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->loggers = std::move(loggers);
    waiting = shared_->items.size();
  }
  for (; waiting > 0; --waiting) add_job();
}

bool ItemQueue::fits(const WaitingItem& item) const {
  return shared_->items.size() < bounds_.items && shared_->bytes + item.bytes <= bounds_.bytes;
}

void ItemQueue::give(WaitingItem item) {
  Count& count = counts_.at(index_of(item.item.kind()));
  item.bytes += sizeof(item) + item.item.name.size() + std::visit(ContentBytes(), item.item.content);
  worker_.check();
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->loggers && shared_->loggers->empty()) return;
    ++count.given;
    if (!fits(item)) {
      ++count.dropped;
      return;
    }
    shared_->bytes += item.bytes;
    shared_->items.push_back(std::move(item));
    if (!shared_->loggers) return;
  }
  add_job();
}

void ItemQueue::add_job() {
  try {
    worker_.add([shared = shared_] { hand_over_waiting(*shared); });
  } catch (const std::system_error& error) {
    throw IoError(
        format("What is logged cannot be passed to the loggers: the system gives no thread for it ({}). Allow this user or "
               "container more processes and threads.",
               error.code().message()));
  }
}

bool ItemQueue::wait_for_idle() {
  constexpr std::chrono::milliseconds kBetweenLooks(100);
  std::optional<Worker::Clock::time_point> end;  // from a signal on
  while (!worker_.wait_until(Worker::Clock::now() + std::min(kBetweenLooks, bounds_.patience))) {
    if (!HeededSignals::is_pending()) continue;
    drop_waiting();
    const auto now = Worker::Clock::now();
    if (!end) end = now + bounds_.patience;
    if (now >= *end) return worker_.wait_until(now);
  }
  return true;
}

void ItemQueue::leave_behind() {
  worker_.leave_behind();
  const std::shared_ptr<Shared> left = std::exchange(shared_, std::make_shared<Shared>());
  std::unique_lock lock(left->mutex);
  const std::string call = left->at_work;
  lock.unlock();
  Console::instance().warn(
      format("A logger has not returned from {} for {} s after a signal, and is abandoned: its items may be lost.", call,
             std::chrono::duration<double>(bounds_.patience).count()));
}

void ItemQueue::finish() {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->loggers) shared_->items.clear();  // none has been opened, nor will be
  }
  if (!wait_for_idle()) leave_behind();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->loggers.reset();
    shared_->items.clear();
    shared_->bytes = 0;
  }
  report_dropped(std::exchange(dropped_by_signal_, false));
  worker_.check();
}

void ItemQueue::hand_over_waiting(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  while (!shared.items.empty()) {
    WaitingItem waiting = std::move(shared.items.front());
    shared.items.pop_front();
    const std::size_t bytes = waiting.bytes;
    const Loggers loggers = *shared.loggers;
    shared.at_work = call_text(waiting.item);
    lock.unlock();
    try {
      hand_over(std::move(waiting), loggers, shared);
    } catch (...) {
      lock.lock();
      shared.items.clear();
      shared.bytes = 0;
      throw;
    }
    lock.lock();
    shared.bytes -= std::min(shared.bytes, bytes);
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
  worker_.drop_waiting();
  const std::lock_guard lock(shared_->mutex);
  dropped_by_signal_ = dropped_by_signal_ || !shared_->items.empty();
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
