#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace levin::test::queued {

/// A position in the work of a stream, as an event records it.
struct Ticket {
  c10::Stream stream;
  std::uint64_t number = 0;  ///< from 1; 0: nothing
};

using Work = std::function<void()>;
/// Makes a piece of work, such as one with new random numbers.
using MakeWork = std::function<Work()>;
/// Work that is recorded instead of done, for repeated replays.
using Recording = std::vector<MakeWork>;

/// The queues of all streams of all devices, and the thread that does their work. Threading: any.
class Queues {
 public:
  static Queues& instance();

  /// Throws an error that the device reports late, as each call that waits does.
  void push(const c10::Stream& stream, const MakeWork& make);
  /// Later work of a stream waits for it.
  void block(const c10::Stream& stream, const Ticket& on);
  /// The end of the stream's work so far.
  Ticket last(const c10::Stream& stream);
  bool is_done(const Ticket& ticket);
  /// The same for a program that polls: the thread does the work that leads to it.
  bool ask(const Ticket& ticket);
  /// Lets the thread do the work that leads to it, and waits. `what`: for QueuedDevice::on_wait(); null: not counted.
  void wait(const Ticket& ticket, const char* what);
  void wait_for_device(c10::DeviceIndex device, const char* what);

  /// From now on new work of the stream is recorded, not done, and waiting for it is an error. Null: no longer.
  void record(const c10::Stream& stream, std::shared_ptr<Recording> recording);
  bool is_recording(const c10::Stream& stream);

  void others_first(bool now);
  void forget_error();
  void on_wait(std::function<void(const char*)> seen);
  std::int64_t waits() const { return waits_; }

 private:
  struct Queue {
    std::deque<std::variant<Work, Ticket>> pending;
    std::uint64_t given = 0;
    std::uint64_t done = 0;
    std::shared_ptr<Recording> recording;
  };
  using Lock = std::unique_lock<std::mutex>;

  Queues();
  Queue& queue_of(const c10::Stream& stream) { return queues_[{stream.device_index(), stream.id()}]; }
  void add(const c10::Stream& stream, std::variant<Work, Ticket> work);
  void reach(Lock& lock, const Ticket& ticket);
  void work();
  void do_until(Lock& lock, const Ticket& ticket);
  void throw_late_error(Lock& lock);
  void note_wait(const char* what);

  std::mutex mutex_;
  std::condition_variable asked_;
  std::condition_variable answered_;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, Queue> queues_;
  std::deque<Ticket> wanted_;
  bool others_first_ = false;
  std::string late_error_;  ///< once set, the device is unusable
  std::function<void(const char*)> seen_;
  std::atomic<std::int64_t> waits_ = 0;
};

}  // namespace levin::test::queued
