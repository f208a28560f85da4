#include "levin/core/run/crash_report.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "levin/core/run/hook_tracker.h"

namespace levin {

namespace {

struct Watched {
  int signal;
  std::string_view name;
  struct sigaction before;
  bool installed;
};

std::array<Watched, 5> watched{{{SIGSEGV, "SIGSEGV", {}, false},
                                {SIGBUS, "SIGBUS", {}, false},
                                {SIGFPE, "SIGFPE", {}, false},
                                {SIGILL, "SIGILL", {}, false},
                                {SIGABRT, "SIGABRT", {}, false}}};
std::atomic<const HookTracker*> current{nullptr};
std::atomic<int> current_rank{0};
/// The process in which a run without other ranks goes on; 0 for none.
pid_t alone_process = 0;
int open_scopes = 0;

// A stack that has run over leaves no room for the handler.
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;
alignas(16) std::array<std::byte, kStackBytes> handler_stack;

/// Puts a line together without memory of its own: only async-signal-safe calls are allowed where it is used.
class Line {
 public:
  void add(std::string_view text) {
    for (const char letter : text) {
      if (size_ < text_.size()) text_[size_++] = letter;
    }
  }
  void add(std::int64_t number) {
    if (number < 0) add("-");
    auto rest = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    std::array<char, 20> digits;
    std::size_t first = digits.size();
    do {
      digits[--first] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    add(std::string_view(&digits[first], digits.size() - first));
  }
  void write_out() const { [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text_.data(), size_); }

 private:
  std::array<char, 512> text_;
  std::size_t size_ = 0;
};

/// " in training_step (train, epoch 0, step 3)"
void add_place(Line& line, const HookTracker& tracker) {
  const Whereabouts where = tracker.whereabouts();
  line.add(where.hook == Hook::kNone ? " between hooks" : " in ");
  if (where.hook != Hook::kNone) line.add(hook_name(where.hook));
  line.add(" (");
  line.add(stage_name(where.stage));
  line.add(", epoch ");
  line.add(where.epoch);
  line.add(", step ");
  line.add(where.step);
  line.add(")");
}

void report(int signal) {
  Line line;
  line.add("\nrank ");
  line.add(current_rank.load());
  line.add(" crashed with ");
  for (const Watched& watch : watched) {
    if (watch.signal == signal) line.add(watch.name);
  }
  if (const HookTracker* tracker = current.load()) add_place(line, *tracker);
  line.add("; its calls, the latest first (addr2line -Cfe PROGRAM ADDRESS names the line of one, when built with -g):\n");
  line.write_out();
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  // The first two are this handler and the kernel's way into it.
  constexpr int kOwn = 2;
  if (count > kOwn) backtrace_symbols_fd(&frames[kOwn], count - kOwn, STDERR_FILENO);
}

void end(int signal) {
  std::signal(signal, SIG_DFL);
  report(signal);
  raise(signal);
}

/// Called by exit().
void end_of_process(int status, void*) {
  const HookTracker* const tracker = current.load();
  if (tracker == nullptr || getpid() != alone_process) return;
  Line line;
  line.add("levin: exit(");
  line.add(status);
  line.add(") was called");
  add_place(line, *tracker);
  line.add(", in the middle of the run, which is not done: throw an exception, or ask with trainer().stop().\n");
  line.write_out();
  std::fflush(nullptr);
  if (status == 0) _exit(1);
}

}  // namespace

CrashReport::CrashReport(int rank, bool alone, const HookTracker& tracker) : outer_(current), outer_rank_(current_rank) {
  current = &tracker;
  current_rank = rank;
  alone_process = alone ? getpid() : 0;
  if (open_scopes++ > 0) return;
  [[maybe_unused]] static const int registered = on_exit(end_of_process, nullptr);
  // The first call loads a library, which must not happen in the handler.
  std::array<void*, 1> frame;
  backtrace(frame.data(), static_cast<int>(frame.size()));
  stack_t before{};
  sigaltstack(nullptr, &before);
  if ((before.ss_flags & SS_DISABLE) != 0) {
    stack_t stack{};
    stack.ss_sp = handler_stack.data();
    stack.ss_size = handler_stack.size();
    sigaltstack(&stack, nullptr);
  }
  for (Watched& watch : watched) {
    struct sigaction present {};
    sigaction(watch.signal, nullptr, &present);
    if (present.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = end;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_ONSTACK;
    watch.installed = sigaction(watch.signal, &action, &watch.before) == 0;
  }
}

CrashReport::~CrashReport() {
  current = outer_;
  current_rank = outer_rank_;
  if (--open_scopes > 0) return;
  for (Watched& watch : watched) {
    if (watch.installed) sigaction(watch.signal, &watch.before, nullptr);
    watch.installed = false;
  }
}

}  // namespace levin
