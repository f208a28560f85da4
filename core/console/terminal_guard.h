#pragma once

#include <termios.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace levin {

// The changes of a run to its terminal, and their restoration, however the process ends or is suspended.

/// Lets restore_terminal() remove a live block from this terminal.
void note_live_block(int fd);

/// Restores the terminal: no live block, and keys as before. Threading: async-signal-safe.
void restore_terminal() noexcept;

/// Prevents drawing by a process that is about to be suspended (Ctrl-Z); false: it is, and must not draw.
class DrawingScope {
 public:
  DrawingScope();
  ~DrawingScope();
  DrawingScope(const DrawingScope&) = delete;
  DrawingScope& operator=(const DrawingScope&) = delete;
  explicit operator bool() const { return may_draw_; }

 private:
  bool may_draw_;
};

/// Passes the keys of the launcher's terminal to ranks. In shared memory, zero at first.
struct SharedKeys {
  std::atomic<std::uint32_t> are_offered;  ///< by the launcher: it is the terminal's foreground
  std::atomic<std::uint32_t> are_wanted;   ///< by rank 0
  std::atomic<std::uint32_t> key;          ///< one that was pressed; 0: none is waiting
};

/// Reads the keys pressed in this process's terminal, one by one, without echo. Only while the process is in the foreground and
/// its standard input is a terminal. Ctrl-C and Ctrl-Z work as usual. One object at a time in a process.
class Keys {
 public:
  Keys();
  /// Restores the terminal.
  ~Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// In a rank: takes keys from its launcher. The memory lives as long as the process.
  static void come_from(SharedKeys& launcher);
  /// True while keys arrive here.
  static bool are_there();
  /// The next pressed key; unset: none. Never waits.
  std::optional<char> next();
  /// In a launcher: passes keys on while rank 0 wants them.
  void pass_to(SharedKeys& ranks);
};

}  // namespace levin
