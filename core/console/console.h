#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "levin/core/export.h"
#include "levin/core/options/choice.h"

namespace levin {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
template <>
inline constexpr std::array kChoices<LogLevel> = {Choice{LogLevel::kDebug, "debug"}, Choice{LogLevel::kInfo, "info"},
                                                  Choice{LogLevel::kWarning, "warning"}, Choice{LogLevel::kError, "error"}};

/// Whom a message speaks for.
enum class Speaker {
  kRank,  ///< this rank: with several ranks each line carries it, "[rank 1] …"
  kRun    ///< the run as a whole: printed by rank 0 alone, and the same for any number of ranks
};

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
/// that speaks for a rank carries the rank; blank lines stay blank. rank_messages.h has the shorthands for users.
///
/// A live line (a progress bar) may stand at the bottom of the terminal: messages are printed above it.
/// Threading: every method may be called from any thread.
class LEVIN_API Console {
 public:
  /// The console of this process, on standard output and error.
  static Console& instance();

  /// A console on other file descriptors; it does not own them.
  Console(int output_fd, int error_fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Sets level, rank and log file for the lines that follow. Throws IoError when the log file cannot be opened; then
  /// everything stays as it was.
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
  /// Warns the first time a key is seen in this run, on one rank (see ask_before_warning()). Default: the message is its own
  /// key.
  void warn_once(std::string_view message, std::string_view key = {}, Speaker speaker = Speaker::kRank);

  /// True for the first process of the run that asks with this key, as far as processes can know of one another.
  using FirstInRun = std::function<bool(std::string_view key)>;
  /// Lets warn_once() say what every rank would say on the first of them only. Called: by a strategy whose ranks share
  /// something that they can ask without waiting. Null: each rank speaks for itself.
  void ask_before_warning(FirstInRun is_first_in_run);

  /// Notes that a person has been told of this error, with the place where it happened, so that nobody tells it a second time
  /// while it leaves the program. It is known by the object that was thrown, however often that is caught and thrown on.
  void mark_told(std::exception_ptr error);
  bool was_told(const std::exception_ptr& error) const;

  /// True when a live line can be shown: standard output, or else standard error, is a terminal that redraws.
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

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace levin
