#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/console/console.h"

namespace levin::test {

/// Collects levin's messages while it lives, from all threads.
class ShownMessages {
 public:
  /// `level`: the only one of which messages are collected; unset: all.
  explicit ShownMessages(std::optional<LogLevel> level = std::nullopt) {
    set_message_sink([this, level](const Message& message) {
      if (level && message.level != *level) return;
      const std::lock_guard lock(mutex_);
      texts_.push_back(message.text);
    });
  }
  ~ShownMessages() { set_message_sink(nullptr); }
  ShownMessages(const ShownMessages&) = delete;
  ShownMessages& operator=(const ShownMessages&) = delete;

  std::vector<std::string> texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  /// One text a line.
  std::string text() const {
    std::string all;
    for (const std::string& text : texts()) all += text + "\n";
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

/// Warnings that `call` gives.
template <class Call>
std::vector<std::string> warnings_of(const Call& call) {
  const ShownMessages warnings(LogLevel::kWarning);
  call();
  return warnings.texts();
}

/// The same as one text, one warning a line.
template <class Call>
std::string warned_by(const Call& call) {
  const ShownMessages warnings(LogLevel::kWarning);
  call();
  return warnings.text();
}

}  // namespace levin::test
