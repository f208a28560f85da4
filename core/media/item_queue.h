#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/worker.h"
#include "levin/core/logged_item.h"
#include "levin/core/logger.h"

namespace levin {

/// An item in the queue.
struct WaitingItem {
  LoggedItem item;                              ///< of the right kind; its content, unless `complete` makes it
  std::function<void(LoggedItem&)> complete{};  ///< makes the content, on the queue's thread: waits for a device, encodes
  std::size_t bytes = 0;                        ///< of the tensors that wait with it, in addition to the content
};

/// Passes items of log_image() and similar functions to the loggers, on a thread that starts with the first item, one at a time
/// and in order. Items that come before the loggers are open wait for them.
///
/// The caller never waits: items beyond the limit, and those that still wait at the end when a signal comes, are dropped and
/// reported. A logger that does not return then is abandoned. After an error the queue stops until the error was reported.
///
/// Threading: for the thread that runs the hooks.
class ItemQueue {
 public:
  /// How much may wait, and how long the end waits for a call to return after a signal.
  struct Bounds {
    std::size_t items = 1024;
    std::size_t bytes = std::size_t{256} << 20;
    std::chrono::milliseconds patience = std::chrono::seconds(10);
  };

  ItemQueue() : ItemQueue(Bounds()) {}
  explicit ItemQueue(Bounds bounds);
  /// Drops waiting items, and waits for the running call as finish() does.
  ~ItemQueue();
  ItemQueue(const ItemQueue&) = delete;
  ItemQueue& operator=(const ItemQueue&) = delete;

  /// Starts passing items to the open loggers.
  void open(std::vector<std::shared_ptr<Logger>> loggers);
  /// Adds an item. Throws the error of an earlier one, once.
  void give(WaitingItem item);
  /// Waits until the loggers have received all items, reports what was dropped, and releases the loggers. A signal ends the
  /// wait, for the current item after the patience of the bounds. Throws the error of an item. Called: at the end of a run,
  /// before the loggers' finalize().
  void finish();

 private:
  struct Count {
    std::int64_t given = 0;
    std::int64_t dropped = 0;
  };
  using Loggers = std::vector<std::shared_ptr<Logger>>;

  /// What the worker uses, which may outlive the queue.
  struct Shared {
    std::mutex mutex;
    std::optional<Loggers> loggers;                                ///< none before they are open
    std::deque<WaitingItem> items;                                 ///< without the one under way
    std::size_t bytes = 0;                                         ///< of all of them, the one under way included
    std::string at_work;                                           ///< the call under way, or the last one
    std::set<std::pair<std::size_t, LoggedItem::Kind>> not_shown;  ///< by which loggers, as was reported; the worker's
  };

  bool fits(const WaitingItem& item) const;
  void add_job();
  void drop_waiting();
  /// Gives the items that wait to the loggers.
  static void hand_over_waiting(Shared& shared);
  static void hand_over(WaitingItem waiting, const Loggers& loggers, Shared& shared);
  /// Waits for the worker. False where a signal ends that.
  bool wait_for_idle();
  /// Leaves a worker behind that does not return, and starts again.
  void leave_behind();
  void report_dropped(bool by_signal);

  const Bounds bounds_;
  std::array<Count, kItemKinds> counts_{};
  bool dropped_by_signal_ = false;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  Worker worker_;
};

}  // namespace levin
