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

/// While it lives, messages of its thread say where the run of that thread is. Scopes nest; the innermost one counts.
class PlaceOfThread {
 public:
  explicit PlaceOfThread(std::function<Whereabouts()> place)
      : place_(std::move(place)), outer_(std::exchange(innermost_, this)) {}
  ~PlaceOfThread() { innermost_ = outer_; }
  PlaceOfThread(const PlaceOfThread&) = delete;
  PlaceOfThread& operator=(const PlaceOfThread&) = delete;

  /// Nothing for a thread that runs no hooks.
  static std::optional<Whereabouts> now() { return innermost_ == nullptr ? std::nullopt : std::optional(innermost_->place_()); }

 private:
  static thread_local const PlaceOfThread* innermost_;

  std::function<Whereabouts()> place_;
  const PlaceOfThread* outer_;
};

/// kNone is above all messages: none is shown.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kNone };
template <>
inline constexpr std::array kChoices<LogLevel> = {Choice{LogLevel::kDebug, "debug"}, Choice{LogLevel::kInfo, "info"},
                                                  Choice{LogLevel::kWarning, "warning"}, Choice{LogLevel::kError, "error"},
                                                  Choice{LogLevel::kNone, "none"}};

/// Whom a message speaks for.
enum class Speaker {
  kRank,  ///< this rank: with several ranks each line carries it, "[rank 1] …"
  kRun    ///< the run as a whole: printed by rank 0 alone, and the same for any number of ranks
};

/// What levin has to tell, as a sink gets it.
struct LEVIN_API Message {
  LogLevel level = LogLevel::kInfo;
  int rank = 0;                      ///< of this process
  Speaker speaker = Speaker::kRank;  ///< whether it speaks for this rank, or, on rank 0, for the run
  std::optional<Whereabouts> place;  ///< where the run is whose hooks this thread runs; unset in other threads
  std::string text;                  ///< one line or several; without level and rank
};

/// From here on `sink` gets the messages of this process in place of standard output and error; null gives them back. Those
/// below `log_level` are not made, `log_file` goes on, and no progress bar is drawn: its figures come as messages, one an
/// epoch. What the sink itself prints with levin's functions, and what it throws on, goes to standard output and error.
/// Threading: any. Whichever thread has something to tell calls the sink, one at a time, and the one before no more after this.
LEVIN_API void set_message_sink(std::function<void(const Message&)> sink);

struct LEVIN_API ConsoleOptions {
  LogLevel level = LogLevel::kInfo;  ///< lines below it are neither shown nor written to the file
  int rank = 0;
  int world_size = 1;
  /// A file that also receives every line, with time and level. `{rank}` in it becomes the rank; without it and with several
  /// ranks, `.rank_{rank}` is put before the extension, so that ranks never share a file. It is appended to.
  std::optional<std::filesystem::path> log_file = std::nullopt;
};

/// The one place through which levin talks to a person. Debug and info lines go to standard output, warnings and errors to
/// standard error; each message is written by a single write(), so lines of several ranks do not mix. Colour appears only on a
/// terminal, and not when NO_COLOR is set. A message of several lines keeps together. With several ranks each line of a message
/// that speaks for a rank carries the rank; blank lines stay blank. Users have rank_info() and its like, below.
///
/// A live line (a progress bar) may stand at the bottom of the terminal: messages are printed above it. Threading: any.
class LEVIN_API Console {
 public:
  /// The console of this process, on standard output and error.
  static Console& instance();

  /// A console on other file descriptors; it does not own them.
  Console(int output_fd, int error_fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Sets level, rank and log file for the lines that follow. IoError when that cannot be opened; then all stays as it was.
  void configure(const ConsoleOptions& options);
  int rank() const;
  /// True when a message of this kind is printed on this rank; else its text need not be made.
  bool shows(LogLevel level, Speaker speaker = Speaker::kRank) const;

  // For this rank.
  void debug(std::string_view message);
  void info(std::string_view message);
  void warn(std::string_view message);
  void error(std::string_view message);
  void print(LogLevel level, std::string_view message, Speaker speaker = Speaker::kRank);
  /// Writes to the log file alone: for what somebody else, such as the launcher, shows to the person.
  void record(LogLevel level, std::string_view message);
  /// As set_message_sink() says.
  void set_sink(std::function<void(const Message&)> sink);
  /// Gives a message of any level to the sink. False when there is none, or it is at work and may never come back.
  bool hand_to_sink(LogLevel level, std::string_view message);
  /// A run begins, such as a Trainer's that is made: warn_once() warns of all anew. Ranks: all, as they make the same runs.
  void begin_run();
  /// Warns the first time a key is seen in this run, on one rank (see ask_before_warning()). Default key: the message.
  void warn_once(std::string_view message, std::string_view key = {}, Speaker speaker = Speaker::kRank);

  /// The warnings that were printed since the last call, the first 20 at most.
  std::vector<std::string> take_warnings();

  /// True for the first process of the run that asks with this key, as far as processes can know of one another.
  using FirstInRun = std::function<bool(std::string_view key)>;
  /// Lets warn_once() say what every rank would say on the first of them only. Called: by a strategy whose ranks share
  /// something that they can ask without waiting. Null: each rank speaks for itself.
  void ask_before_warning(FirstInRun is_first_in_run);

  /// Notes that a person has been told of this error, with the place where it happened, so that nobody tells it a second time
  /// while it leaves the program. It is known by the object that was thrown, however often that is caught and thrown on.
  void mark_told(std::exception_ptr error);
  bool was_told(const std::exception_ptr& error) const;

  /// True when a live line can be shown: there is no sink, and standard output or error is a terminal that redraws.
  bool has_live_line() const;
  /// Columns that a live line may take now: the terminal's width less one (the last column would make some terminals wrap).
  int live_line_width() const;
  /// Shows `text` as the bottom line, in place of the one before. Without a terminal nothing happens. `text` is one line
  /// without control characters; what does not fit is cut.
  void set_live_line(std::string_view text);
  /// Takes the live line away.
  void clear_live_line();
  /// Leaves the live line as an ordinary line of output and goes on below it.
  void keep_live_line();

  /// The size of the terminal that live lines go to, and whether they may have colours.
  TerminalSize live_size() const;
  bool live_colors() const;
  /// Shows lines at the bottom of the terminal, in place of those before, while everything else scrolls above: no wider than
  /// a terminal of that size, and less than its rows; one line alone is a live line. Nothing is shown without a terminal, and
  /// none is by a process that is about to be stopped.
  void set_live_block(const std::vector<std::string>& lines, const TerminalSize& size);
  /// Takes it away.
  void clear_live_block();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What a user's code prints with, in place of std::cout, so that the lines of several ranks do not mix, stand above the
// progress bar, obey `log_level`, go to the `log_file` too, and say whose they are:
//
//     levin::rank_info("read ", files, " files");               // [rank 1] read 12 files
//     levin::rank_zero_info("best val_loss so far: ", best);    // best val_loss so far: 0.25
//
// The parts of a message, each as it prints to a std::ostream, as tensors do, are put together. Ranks: any. Threading: any.

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
/// A warning of whichever rank says it first, on standard error: once in a run, however often and on however many ranks the
/// same text is given; a Trainer that is made, as for the next fold, is another run. (Once on each host, where ranks are on
/// several; once on each rank where they share no memory.)
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

/// Calls `function` on rank 0 only; it must not communicate, since the other ranks do not take part.
LEVIN_API void rank_zero_only(const std::function<void()>& function);

}  // namespace levin
