#include "levin/core/console/terminal_guard.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "levin/core/base/signal_handlers.h"
#include "levin/core/console/live_block.h"

namespace levin {
namespace {

std::atomic<int> block_fd = -1;
std::atomic<int> keys_fd = -1;  ///< -1: keys are as they were found
termios found_modes;
std::atomic<int> drawing = 0;
std::atomic<bool> nobody_draws = false;
std::atomic<SharedKeys*> launcher = nullptr;

bool is_foreground(int fd) { return isatty(fd) == 1 && tcgetpgrp(fd) == getpgrp(); }

void give_back_keys() noexcept {
  const int fd = std::atomic_exchange(&keys_fd, -1);
  // In the background it would stop the process; the foreground process has its own modes.
  if (fd >= 0 && is_foreground(fd)) tcsetattr(fd, TCSANOW, &found_modes);
}

void stop_process(int) {
  const int before = errno;
  restore_terminal();
  kill(getpid(), SIGSTOP);
  // The process may continue for a moment before it is stopped.
  constexpr timespec kMoment{0, 20'000'000};
  nanosleep(&kMoment, nullptr);
  nobody_draws = false;
  errno = before;
}

void end_process_by(int signal) {
  restore_terminal();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

SignalHandlers& stops() {
  static auto& handlers = *new SignalHandlers({SIGTSTP}, stop_process, SA_RESTART);
  return handlers;
}

SignalHandlers& ends() {
  static auto& handlers =
      *new SignalHandlers({SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}, end_process_by, 0);
  return handlers;
}

}  // namespace

void note_live_block(int fd) { block_fd = fd; }

void restore_terminal() noexcept {
  nobody_draws = true;
  // What another thread is writing just now would come after.
  for (int looks = 0; drawing > 0 && looks < 100; ++looks) {
    constexpr timespec kMillisecond{0, 1000000};
    nanosleep(&kMillisecond, nullptr);
  }
  if (const int fd = std::atomic_exchange(&block_fd, -1); fd >= 0) {
    [[maybe_unused]] const ssize_t written = write(fd, LiveBlock::kRemove.data(), LiveBlock::kRemove.size());
  }
  give_back_keys();
}

DrawingScope::DrawingScope() {
  ++drawing;
  may_draw_ = !nobody_draws;
}
DrawingScope::~DrawingScope() { --drawing; }

Keys::Keys() {
  [[maybe_unused]] static const int registered = std::atexit(restore_terminal);
  stops().take([] {});
  ends().take([] {});
}

Keys::~Keys() {
  if (SharedKeys* const shared = launcher) shared->are_wanted = 0;
  give_back_keys();
  ends().give_back();
  stops().give_back();
}

void Keys::come_from(SharedKeys& shared) { launcher = &shared; }

bool Keys::are_there() {
  const SharedKeys* const shared = launcher;
  return shared != nullptr ? shared->are_offered != 0 : is_foreground(STDIN_FILENO);
}

std::optional<char> Keys::next() {
  if (SharedKeys* const shared = launcher) {
    shared->are_wanted = 1;
    const std::uint32_t key = std::atomic_exchange(&shared->key, 0U);
    return key == 0 ? std::nullopt : std::optional(static_cast<char>(key));
  }
  if (!is_foreground(STDIN_FILENO)) return std::nullopt;
  if (keys_fd < 0) {
    if (tcgetattr(STDIN_FILENO, &found_modes) != 0) return std::nullopt;
    termios modes = found_modes;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    modes.c_cc[VMIN] = 0;
    modes.c_cc[VTIME] = 0;
    keys_fd = STDIN_FILENO;
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
  }
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  char key = 0;
  return poll(&ready, 1, 0) == 1 && read(STDIN_FILENO, &key, 1) == 1 ? std::optional(key) : std::nullopt;
}

void Keys::pass_to(SharedKeys& ranks) {
  ranks.are_offered = are_there() ? 1 : 0;
  const bool are_wanted = ranks.are_wanted != 0;
  // Should rank 0 be killed, it cannot take its block away.
  note_live_block(are_wanted && isatty(STDOUT_FILENO) == 1 ? STDOUT_FILENO : -1);
  if (!are_wanted) return give_back_keys();
  if (ranks.key != 0) return;
  if (const auto key = next()) ranks.key = static_cast<unsigned char>(*key);
}

}  // namespace levin
