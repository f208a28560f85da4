#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace levin {

/// A file descriptor, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  /// A negative number: none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (is_open()) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Releases its number, which the caller must close.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// Waits for events of poll(), across signals. False when none has happened by the deadline.
inline bool is_ready_by(std::chrono::steady_clock::time_point deadline, int descriptor, short events) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{descriptor, events, 0};
    if (poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000))) > 0) return true;
  }
}

}  // namespace levin
