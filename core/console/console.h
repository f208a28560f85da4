#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <ios>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/config/option_type.h"

namespace levin {

struct TerminalSize;

/// During its lifetime, messages of its thread say where that thread's run is. Scopes nest; the innermost one counts.
class PlaceOfThread {
 public:
  explicit PlaceOfThread(std::function<Whereabouts()> place)
      : place_(std::move(place)), outer_(std::exchange(innermost_, this)) {}
  ~PlaceOfThread() { innermost_ = outer_; }
  PlaceOfThread(const PlaceOfThread&) = delete;
  PlaceOfThread& operator=(const PlaceOfThread&) = delete;

  /// Unset for a thread that runs no hooks.
  static std::optional<Whereabouts> now() { return innermost_ == nullptr ? std::nullopt : std::optional(innermost_->place_()); }

 private:
  static thread_local const PlaceOfThread* innermost_;

  std::function<Whereabouts()> place_;
  const PlaceOfThread* outer_;
};

/// kNone shows no messages.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kNone };
template <>
inline constexpr std::array kChoices<LogLevel> = {Choice{LogLevel::kDebug, "debug"}, Choice{LogLevel::kInfo, "info"},
                                                  Choice{LogLevel::kWarning, "warning"}, Choice{LogLevel::kError, "error"},
                                                  Choice{LogLevel::kNone, "none"}};

/// The subject of a message.
enum class Speaker {
  kRank,  ///< this rank: with several ranks each line begins with it, "[rank 1] …"
  kRun    ///< the whole run: only rank 0 prints it, the same for any number of ranks
};

/// A message of levin, as a sink gets it.
struct LEVIN_API Message {
  LogLevel level = LogLevel::kInfo;
  int rank = 0;                      ///< of this process
  Speaker speaker = Speaker::kRank;  ///< this rank, or, on rank 0, the run
  std::optional<Whereabouts> place;  ///< where this thread's run is; unset in threads that run no hooks
  std::string text;                  ///< one line or several; without level and rank
};

/// Sends the messages of this process to `sink` instead of standard output and error; null restores these. Messages below
/// `log_level` are not made, `log_file` continues, and instead of a progress bar there is one message per epoch. What the sink
/// itself prints with levin's functions, and messages on which it throws, go to standard output and error. Threading: any.
/// Every thread calls the sink, one at a time; after this call no thread calls the previous sink.
LEVIN_API void set_message_sink(std::function<void(const Message&)> sink);

struct LEVIN_API ConsoleOptions {
  LogLevel level = LogLevel::kInfo;  ///< lines below it are neither shown nor written to the file
  int rank = 0;
  int world_size = 1;
  /// A file to which every line is also appended, with time and level. `{rank}` in it becomes the rank; without it and with
  /// several ranks, `.rank_{rank}` is put before the extension, so that ranks never share a file.
  std::optional<std::filesystem::path> log_file = std::nullopt;
};

/// Prints all of levin's messages. Debug and info lines go to standard output, warnings and errors to standard error; each
/// message, also one of several lines, is a single write(), so that ranks do not mix. Colour appears only on a terminal, and
/// not when NO_COLOR is set. With several ranks each line of a rank's message begins with the rank; blank lines stay blank.
/// Users call rank_info() and the other functions below.
///
/// Messages are printed above the live line (a progress bar) at the bottom of the terminal. Threading: any.
class LEVIN_API Console {
 public:
  /// The console of this process, on standard output and error.
  static Console& instance();

  /// A console on other file descriptors; it does not own them.
  Console(int output_fd, int error_fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Sets level, rank and log file for the lines that follow. Throws IoError when that cannot be opened, and then changes
  /// nothing.
  void configure(const ConsoleOptions& options);
  int rank() const;
  /// True when this rank prints such a message; else the caller need not make its text.
  bool shows(LogLevel level, Speaker speaker = Speaker::kRank) const;

  // For this rank.
  void debug(std::string_view message);
  void info(std::string_view message);
  void warn(std::string_view message);
  void error(std::string_view message);
  void print(LogLevel level, std::string_view message, Speaker speaker = Speaker::kRank);
  /// Writes only to the log file, for messages that another process, such as the launcher, shows.
  void record(LogLevel level, std::string_view message);
  /// As set_message_sink() says.
  void set_sink(std::function<void(const Message&)> sink);
  /// Passes a message of any level to the sink. False when there is none, or when it is running and may never return.
  bool hand_to_sink(LogLevel level, std::string_view message);
  /// Starts a run, such as a new Trainer's: warn_once() repeats its warnings. Ranks: all, as they make the same runs.
  void begin_run();
  /// Warns the first time a key is seen in this run, on one rank (see ask_before_warning()). Default key: the message.
  void warn_once(std::string_view message, std::string_view key = {}, Speaker speaker = Speaker::kRank);

  /// The warnings printed since the last call, the first 20 at most.
  std::vector<std::string> take_warnings();

  /// True for the first process of the run that calls it with this key, as far as processes share memory.
  using FirstInRun = std::function<bool(std::string_view key)>;
  /// Makes warn_once() print a warning of several ranks on the first of them only. Called: by a strategy whose ranks share
  /// memory that they can read without waiting. Null: each rank prints its own.
  void ask_before_warning(FirstInRun is_first_in_run);

  /// Marks an error as printed, with its position, so that it is not printed again on its way out of the program. The mark
  /// belongs to the thrown object, however often it is caught and rethrown.
  void mark_reported(std::exception_ptr error);
  bool was_reported(const std::exception_ptr& error) const;

  /// True when there is no sink, and standard output or error is a terminal that redraws.
  bool has_live_line() const;
  /// The columns of a live line now: the terminal's width less one (some terminals wrap at the last column).
  int live_line_width() const;
  /// Replaces the bottom line by `text`. Does nothing without a terminal. `text` is one line without control characters, cut to
  /// the width.
  void set_live_line(std::string_view text);
  /// Removes the live line.
  void clear_live_line();
  /// Turns the live line into an ordinary line of output and continues below it.
  void keep_live_line();

  /// The size of the terminal for live lines, and whether they may have colours.
  TerminalSize live_size() const;
  bool live_colors() const;
  /// Replaces the lines at the bottom of the terminal, above which all else scrolls. They are no wider than a terminal of
  /// `size`, and fewer than its rows; a single line is a live line. Shows nothing without a terminal, or in a process that is
  /// about to be suspended.
  void set_live_block(const std::vector<std::string>& lines, const TerminalSize& size);
  /// Removes the block.
  void clear_live_block();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Print with these functions instead of std::cout, so that lines of several ranks do not mix, stay above the progress bar, obey
// `log_level`, go to `log_file` too, and begin with their rank:
//
//     levin::rank_info("read ", files, " files");               // [rank 1] read 12 files
//     levin::rank_zero_info("best val_loss so far: ", best);    // best val_loss so far: 0.25
//
// The parts of a message are joined, each printed as to a std::ostream; tensors work, too. Ranks: any. Threading: any.

namespace detail {

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream text;
  text << std::boolalpha;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
void print_parts(LogLevel level, Speaker speaker, const Parts&... parts) {
  if (Console::instance().shows(level, speaker)) Console::instance().print(level, joined(parts...), speaker);
}

}  // namespace detail

/// A line of this rank, shown when `log_level` is debug.
template <class... Parts>
void rank_debug(const Parts&... parts) {
  detail::print_parts(LogLevel::kDebug, Speaker::kRank, parts...);
}
/// A line of this rank.
template <class... Parts>
void rank_info(const Parts&... parts) {
  detail::print_parts(LogLevel::kInfo, Speaker::kRank, parts...);
}
/// A warning of this rank, on standard error.
template <class... Parts>
void rank_warn(const Parts&... parts) {
  detail::print_parts(LogLevel::kWarning, Speaker::kRank, parts...);
}
/// A warning of the first rank that gives it, on standard error: once in a run, for any number of calls and ranks with the same
/// text. A new Trainer, such as for the next fold, is another run. (Once on each host, if ranks are on several; once on each
/// rank without shared memory.)
template <class... Parts>
void rank_warn_once(const Parts&... parts) {
  Console::instance().warn_once(detail::joined(parts...));
}
/// An error of this rank, on standard error. It does not end the run; throw an exception for that.
template <class... Parts>
void rank_error(const Parts&... parts) {
  detail::print_parts(LogLevel::kError, Speaker::kRank, parts...);
}

/// A line for the whole run: rank 0 prints it, others do nothing. Shown when `log_level` is debug.
template <class... Parts>
void rank_zero_debug(const Parts&... parts) {
  detail::print_parts(LogLevel::kDebug, Speaker::kRun, parts...);
}
/// A line for the whole run: rank 0 prints it, others do nothing.
template <class... Parts>
void rank_zero_info(const Parts&... parts) {
  detail::print_parts(LogLevel::kInfo, Speaker::kRun, parts...);
}
/// A warning for the whole run, on standard error: rank 0 prints it, others do nothing.
template <class... Parts>
void rank_zero_warn(const Parts&... parts) {
  detail::print_parts(LogLevel::kWarning, Speaker::kRun, parts...);
}

/// Calls `function` on rank 0 only; it must not communicate, because the other ranks do not take part.
LEVIN_API void rank_zero_only(const std::function<void()>& function);

}  // namespace levin
