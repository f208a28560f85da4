#pragma once

#include <termios.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace levin {

// What a run changes of its terminal, and how it comes back however the process ends or is stopped.

/// From here on restore_terminal() takes a live block away from this terminal.
void note_live_block(int fd);

/// Puts the terminal back as it was found: no live block, and keys as they were. Threading: async-signal-safe.
void restore_terminal() noexcept;

/// Keeps a process that is about to be stopped (Ctrl-Z) from drawing; false: it is, and nothing may be drawn.
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

/// How ranks get the keys of a terminal that belongs to their launcher. Lies in shared memory, zero at first.
struct SharedKeys {
  std::atomic<std::uint32_t> are_offered;  ///< by the launcher: it is the terminal's foreground
  std::atomic<std::uint32_t> are_wanted;   ///< by rank 0
  std::atomic<std::uint32_t> key;          ///< one that was pressed; 0: none is waiting
};

/// The keys that a person presses in the terminal of this process, one by one, without their being shown. Only while the
/// process is in the foreground: a terminal of another one is left alone, and so is a standard input that is none. Ctrl-C and
/// Ctrl-Z mean what they always do. One at a time in a process.
class Keys {
 public:
  Keys();
  /// Gives the terminal back.
  ~Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// Of a rank: keys come from its launcher. The memory stays for as long as the process.
  static void come_from(SharedKeys& launcher);
  /// True while a person's keys would come here.
  static bool are_there();
  /// The next key that was pressed; nothing where there is none. Never waits.
  std::optional<char> next();
  /// Of a launcher: hands keys on, as long as they are wanted.
  void pass_to(SharedKeys& ranks);
};

}  // namespace levin
