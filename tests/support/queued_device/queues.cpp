#include "support/queued_device/queues.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>

namespace levin::test::queued {

namespace {
/// A program that never waits must not take all memory.
constexpr std::size_t kMostPending = 20000;
}  // namespace

Queues& Queues::instance() {
  // For ever: its thread, and tensors in static variables, may be there until the program ends.
  static auto* const queues = new Queues;
  return *queues;
}

Queues::Queues() {
  std::thread([this] { work(); }).detach();
}

void Queues::throw_late_error(Lock&) {
  if (late_error_.empty()) return;
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, 710, "QueuedDevice: " + late_error_);
}

void Queues::add(const c10::Stream& stream, std::variant<Work, Ticket> work) {
  Lock lock(mutex_);
  throw_late_error(lock);
  Queue& queue = queue_of(stream);
  queue.pending.push_back(std::move(work));
  ++queue.given;
  static const bool at_once = std::getenv("QUEUED_AT_ONCE") != nullptr;
  if (at_once || (others_first_ && stream.id() != 0)) reach(lock, {stream, queue.given});
  if (queue.pending.size() > kMostPending) reach(lock, {stream, queue.done + kMostPending / 2});
  throw_late_error(lock);
}

void Queues::push(const c10::Stream& stream, const MakeWork& make) {
  {
    const Lock lock(mutex_);
    if (const auto& recording = queue_of(stream).recording) return recording->push_back(make);
  }
  add(stream, make());
}

void Queues::block(const c10::Stream& stream, const Ticket& on) {
  if (on.number > 0 && on.stream != stream) add(stream, on);
}

Ticket Queues::last(const c10::Stream& stream) {
  const Lock lock(mutex_);
  return {stream, queue_of(stream).given};
}

bool Queues::is_done(const Ticket& ticket) {
  const Lock lock(mutex_);
  return queue_of(ticket.stream).done >= ticket.number;
}

void Queues::others_first(bool now) {
  const Lock lock(mutex_);
  others_first_ = now;
}

void Queues::forget_error() {
  const Lock lock(mutex_);
  late_error_.clear();
}

bool Queues::ask(const Ticket& ticket) {
  const Lock lock(mutex_);
  if (queue_of(ticket.stream).done >= ticket.number) return true;
  wanted_.push_back(ticket);
  asked_.notify_one();
  return false;
}

void Queues::note_wait(const char* what) {
  if (what == nullptr) return;
  ++waits_;
  std::function<void(const char*)> seen;
  {
    const Lock lock(mutex_);
    seen = seen_;
  }
  if (seen) seen(what);
}

void Queues::wait(const Ticket& ticket, const char* what) {
  note_wait(what);
  Lock lock(mutex_);
  TORCH_CHECK(!queue_of(ticket.stream).recording, "operation not permitted when stream is capturing");
  reach(lock, ticket);
  throw_late_error(lock);
}

void Queues::wait_for_device(c10::DeviceIndex device, const char* what) {
  note_wait(what);
  Lock lock(mutex_);
  std::vector<Ticket> tickets;
  for (const auto& [key, queue] : queues_) {
    if (key.first != device) continue;
    TORCH_CHECK(!queue.recording, "operation not permitted when stream is capturing");
    tickets.push_back({c10::Stream(c10::Stream::UNSAFE, {c10::DeviceType::PrivateUse1, device}, key.second), queue.given});
  }
  for (const Ticket& ticket : tickets) reach(lock, ticket);
  throw_late_error(lock);
}

void Queues::record(const c10::Stream& stream, std::shared_ptr<Recording> recording) {
  const Lock lock(mutex_);
  queue_of(stream).recording = std::move(recording);
}

bool Queues::is_recording(const c10::Stream& stream) {
  const Lock lock(mutex_);
  return queue_of(stream).recording != nullptr;
}

void Queues::on_wait(std::function<void(const char*)> seen) {
  const Lock lock(mutex_);
  seen_ = std::move(seen);
}

void Queues::reach(Lock& lock, const Ticket& ticket) {
  const Queue& queue = queue_of(ticket.stream);
  if (queue.done >= ticket.number) return;
  wanted_.push_back(ticket);
  asked_.notify_one();
  answered_.wait(lock, [&] { return queue.done >= ticket.number; });
}

void Queues::work() {
  // Tensors of a caller in this mode can be written in it alone, others too.
  const c10::InferenceMode inference;
  Lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [&] { return !wanted_.empty(); });
    do_until(lock, wanted_.front());
    wanted_.pop_front();
    answered_.notify_all();
  }
}

void Queues::do_until(Lock& lock, const Ticket& ticket) {
  Queue& queue = queue_of(ticket.stream);
  while (queue.done < ticket.number) {
    const auto next = std::move(queue.pending.front());
    queue.pending.pop_front();
    if (const auto* other = std::get_if<Ticket>(&next)) {
      do_until(lock, *other);
    } else if (late_error_.empty()) {
      lock.unlock();
      std::string error;
      try {
        std::get<Work>(next)();
      } catch (const c10::Error& thrown) {
        error = thrown.what_without_backtrace();
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
      lock.lock();
      late_error_ = std::move(error);
    }
    ++queue.done;
  }
}

}  // namespace levin::test::queued
