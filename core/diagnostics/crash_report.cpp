#include "levin/core/diagnostics/crash_report.h"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "levin/core/base/signal_handlers.h"
#include "levin/core/console/terminal_guard.h"
#include "levin/core/run/hook_runner.h"

namespace levin {

struct RunOfThread {
  std::atomic<pid_t> thread = 0;  ///< 0: none
  std::atomic<const HookTracker*> tracker = nullptr;
  std::atomic<int> rank = 0;
  std::atomic<pid_t> alone_in = 0;  ///< the process that runs without other ranks; 0: none
};

namespace {

constexpr std::size_t kMostRuns = 64;
std::array<RunOfThread, kMostRuns> runs;

// An array that never moves, because a handler may run at any time.
RunOfThread* run_of(pid_t thread) {
  for (RunOfThread& run : runs) {
    if (run.thread.load() == thread) return &run;
  }
  return nullptr;
}

/// Null when all are taken.
RunOfThread* take_run(pid_t thread) {
  if (RunOfThread* const own = run_of(thread)) return own;
  for (RunOfThread& run : runs) {
    pid_t none = 0;
    if (run.thread.compare_exchange_strong(none, thread)) return &run;
  }
  return nullptr;
}

std::atomic<int> last_rank = 0;  ///< of this process

/// Builds a line without allocating: its callers may make only async-signal-safe calls.
class Line {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    (append(parts), ...);
  }
  void write_out() const { [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text_.data(), size_); }

 private:
  void append(std::string_view text) { size_ += text.copy(text_.data() + size_, text_.size() - size_); }
  void append(std::int64_t number) {
    std::array<char, 20> digits;
    append(std::string_view(digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr));
  }

  std::array<char, 512> text_;
  std::size_t size_ = 0;
};

/// " in training_step (train, epoch 0, step 3)"
void add_place(Line& line, const HookTracker& tracker) {
  const Whereabouts where = tracker.whereabouts();
  const bool is_between = where.hook == Hook::kNone;
  line.add(is_between ? " between hooks" : " in ", is_between ? "" : hook_name(where.hook), " (", stage_name(where.stage),
           ", epoch ", where.epoch, ", step ", where.step, ")");
}

void report(int signal) {
  const RunOfThread* const own = run_of(gettid());
  Line line;
  line.add("\nrank ", own != nullptr ? own->rank.load() : last_rank.load(), " crashed with SIG", sigabbrev_np(signal));
  if (const HookTracker* tracker = own != nullptr ? own->tracker.load() : nullptr) {
    add_place(line, *tracker);
  } else {
    line.add(" in a thread that runs no hooks");
  }
  line.add("; its stack, innermost call first (addr2line -Cfe PROGRAM ADDRESS prints a call's line, when built with -g):\n");
  line.write_out();
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  // The first two are this handler and the kernel's call of it.
  constexpr int kOwn = 2;
  if (count > kOwn) backtrace_symbols_fd(&frames[kOwn], count - kOwn, STDERR_FILENO);
}

void end(int signal) {
  restore_terminal();
  std::signal(signal, SIG_DFL);
  report(signal);
  raise(signal);
}

void end_of_process(int status, void*) {
  const RunOfThread* const own = run_of(gettid());
  const pid_t process = getpid();
  const auto is_running = [&](const RunOfThread& run) { return run.thread != 0 && run.alone_in == process; };
  if (own != nullptr ? !is_running(*own) : std::ranges::none_of(runs, is_running)) return;
  Line line;
  line.add("levin: exit(", status, ") was called");
  if (own != nullptr) {
    add_place(line, *own->tracker.load());
  } else {
    line.add(" by a thread that runs no hooks");
  }
  line.add(", in the middle of the run: throw an exception instead, or call trainer().stop().\n");
  line.write_out();
  std::fflush(nullptr);
  if (status == 0) _exit(1);
}

SignalHandlers& handlers() {
  static auto& handlers = *new SignalHandlers({SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}, end, SA_ONSTACK);
  return handlers;
}

void prepare() {
  [[maybe_unused]] static const int registered = on_exit(end_of_process, nullptr);
  // The first call loads a library, which must not happen in the handler.
  std::array<void*, 1> frame;
  backtrace(frame.data(), static_cast<int>(frame.size()));
}

/// Null if the thread has such a stack already.
std::unique_ptr<std::byte[]> make_handler_stack() {
  constexpr std::size_t kBytes = std::size_t{256} * 1024;
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) == 0) return nullptr;
  auto memory = std::make_unique<std::byte[]>(kBytes);
  stack_t stack{};
  stack.ss_sp = memory.get();
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
  return memory;
}

}  // namespace

CrashReport::CrashReport(int rank, bool alone, const HookTracker& tracker)
    : run_(take_run(gettid())), handler_stack_(make_handler_stack()) {
  last_rank = rank;
  if (run_ != nullptr) {
    outer_ = run_->tracker;
    run_->tracker = &tracker;
    run_->rank = rank;
    run_->alone_in = alone ? getpid() : 0;
  }
  handlers().take(prepare);
}

CrashReport::~CrashReport() {
  handlers().give_back();
  if (run_ != nullptr) {
    run_->tracker = outer_;
    if (outer_ == nullptr) run_->thread = 0;
  }
  if (handler_stack_ == nullptr) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace levin
