#include "levin/core/console/console.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <regex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/console/live_block.h"
#include "levin/core/console/terminal.h"
#include "levin/core/console/terminal_guard.h"
#include "levin/core/files/descriptor.h"

namespace levin {
namespace {

constexpr const char* kEraseLine = "\r\033[K";
constexpr std::size_t kKeptWarnings = 20;

bool same_terminal(int left, int right) {
  struct stat left_stat {
  }, right_stat{};
  return fstat(left, &left_stat) == 0 && fstat(right, &right_stat) == 0 && left_stat.st_rdev == right_stat.st_rdev;
}

std::string label_of(LogLevel level, bool color) {
  if (level == LogLevel::kInfo) return "";
  const std::string label = format("{}:", choice_name(level));
  if (!color) return label + " ";
  const char* const code = level == LogLevel::kDebug ? "2" : level == LogLevel::kWarning ? "33" : "1;31";
  return format("\033[{}m{}\033[0m ", code, label);
}

std::vector<std::string> lines_of(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return split(text, "\n");
}

std::filesystem::path file_of_rank(const std::filesystem::path& pattern, int rank, int world_size) {
  static const std::regex placeholder(R"(\{rank\})");
  const std::string text = pattern.string();
  if (world_size <= 1 || std::regex_search(text, placeholder)) {
    return std::regex_replace(text, placeholder, std::to_string(rank));
  }
  std::filesystem::path file = pattern.parent_path() / pattern.stem();
  file += format(".rank_{}{}", rank, pattern.extension());
  return file;
}

/// Made with its folder when missing. A link is refused: in a folder of another user it may lead to any file of this one. A
/// FIFO without a reader is an error, not a wait.
Descriptor open_for_appending(const std::filesystem::path& path, int rank) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666));
  if (descriptor.is_open()) {
    fcntl(descriptor.number(), F_SETFL, O_APPEND);
    return descriptor;
  }
  const std::string reason = errno == ELOOP ? "it is a symbolic link. Name the file that it leads to" : std::strerror(errno);
  throw IoError(format("log_file: rank {} cannot open {}: {}", rank, path, reason));
}

/// "2026-11-24 23:55:01.042"
std::string time_of_day() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  localtime_r(&now.tv_sec, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%F %T", &parts);
  return format("{}.{:03}", text.data(), now.tv_nsec / 1000000);
}

}  // namespace

thread_local const PlaceOfThread* PlaceOfThread::innermost_ = nullptr;

struct Console::Impl {
  Impl(int output_fd, int error_fd)
      : output(output_fd),
        error(error_fd),
        live_fd(terminal_redraws(output_fd)  ? output_fd
                : terminal_redraws(error_fd) ? error_fd
                                             : -1),
        output_on_live(live_fd == output_fd),
        error_on_live(live_fd >= 0 && (live_fd == error_fd || (is_terminal(error_fd) && same_terminal(live_fd, error_fd)))) {}

  bool speaks(LogLevel level, Speaker speaker) const {
    return level >= options.level && (speaker == Speaker::kRank || options.rank == 0);
  }

  std::string prefix(Speaker speaker) const {
    const bool of_one_rank = speaker == Speaker::kRank && options.world_size > 1;
    return of_one_rank ? format("[rank {}] ", options.rank) : "";
  }

  void print(LogLevel level, std::string_view message, Speaker speaker) {
    const bool is_error = level >= LogLevel::kWarning;
    const int fd = is_error ? error : output;
    const bool beside_live_line = is_error ? error_on_live : output_on_live;
    const std::string label = label_of(level, terminal_has_color(fd));

    std::string text;
    // With several ranks on one terminal the bottom line may be the live line of another process.
    if (beside_live_line && (live_shown || options.world_size > 1)) text += kEraseLine;
    bool has_label = !label.empty();
    for (const std::string& line : lines_of(message)) {
      if (has_label || !line.empty()) text += prefix(speaker);
      if (std::exchange(has_label, false)) text += label;
      text += line + "\n";
    }
    if (beside_live_line && live_shown) text += fit_to_width(live_text, live_width());
    write_whole(fd, text);
    record(level, message, speaker);
  }

  /// Gives the message to the sink. False where there is none, or it fails.
  bool deliver(const Message& message) {
    static thread_local bool is_delivering = false;
    if (is_delivering || !sink) return false;
    is_delivering = true;
    bool is_done = true;
    try {
      sink(message);
    } catch (...) {
      is_done = false;  // the message is what matters
    }
    is_delivering = false;
    return is_done;
  }

  void record(LogLevel level, std::string_view message, Speaker speaker) {
    if (!log_file.is_open()) return;
    for (const std::string& line : lines_of(message)) {
      const std::string text = format("{} {}{}: {}\n", time_of_day(), prefix(speaker), choice_name(level), line);
      if (write_whole(log_file.number(), text) || std::exchange(log_has_failed, true)) continue;
      write_whole(error, format("error: cannot write {}: {}\n", log_path, std::strerror(errno)));
    }
  }

  std::size_t live_width() const { return static_cast<std::size_t>(std::max(terminal_width(live_fd) - 1, 1)); }

  const int output;
  const int error;
  const int live_fd;
  const bool output_on_live;
  const bool error_on_live;

  mutable std::mutex mutex;
  ConsoleOptions options;
  std::filesystem::path log_path;
  Descriptor log_file;
  bool log_has_failed = false;                ///< and that was said
  std::set<std::string, std::less<>> warned;  ///< keys of warn_once() in this run
  std::int64_t runs = 0;
  std::vector<std::string> warnings;
  FirstInRun is_first_in_run;
  std::vector<std::exception_ptr> reported;  ///< stored, so that no other error gets the same address
  std::string live_text;
  bool live_shown = false;
  LiveBlock block;
  bool block_shown = false;

  /// Of the sink. Taken before the other, if both are; a sink that prints takes it again.
  std::recursive_mutex sink_mutex;
  std::function<void(const Message&)> sink;
  std::atomic<bool> has_sink = false;
};

Console& Console::instance() {
  // Never destroyed: threads and other static objects may print until the very end.
  static Console& console = *new Console(STDOUT_FILENO, STDERR_FILENO);
  return console;
}

Console::Console(int output_fd, int error_fd) : impl_(std::make_unique<Impl>(output_fd, error_fd)) {}
Console::~Console() = default;

void Console::configure(const ConsoleOptions& options) {
  std::filesystem::path path;
  Descriptor file;
  if (options.log_file) {
    path = file_of_rank(*options.log_file, options.rank, options.world_size);
    file = open_for_appending(path, options.rank);
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->options = options;
  impl_->log_path = std::move(path);
  impl_->log_file = std::move(file);
  impl_->log_has_failed = false;
}

int Console::rank() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->options.rank;
}

bool Console::shows(LogLevel level, Speaker speaker) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->speaks(level, speaker);
}

void Console::debug(std::string_view message) { print(LogLevel::kDebug, message); }
void Console::info(std::string_view message) { print(LogLevel::kInfo, message); }
void Console::warn(std::string_view message) { print(LogLevel::kWarning, message); }
void Console::error(std::string_view message) { print(LogLevel::kError, message); }

void Console::print(LogLevel level, std::string_view unmasked, Speaker speaker) {
  const std::string message = without_secrets(unmasked);
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->speaks(level, speaker)) return;
    if (level == LogLevel::kWarning && impl_->warnings.size() < kKeptWarnings) impl_->warnings.emplace_back(message);
    if (!impl_->has_sink) return impl_->print(level, message, speaker);
  }
  const std::lock_guard sink_lock(impl_->sink_mutex);
  const bool is_delivered = impl_->deliver({level, rank(), speaker, PlaceOfThread::now(), message});
  const std::lock_guard lock(impl_->mutex);
  is_delivered ? impl_->record(level, message, speaker) : impl_->print(level, message, speaker);
}

void Console::set_sink(std::function<void(const Message&)> sink) {
  keep_live_line();
  const std::lock_guard sink_lock(impl_->sink_mutex);
  impl_->sink = std::move(sink);
  impl_->has_sink = impl_->sink != nullptr;
}

bool Console::hand_to_sink(LogLevel level, std::string_view message) {
  for (int attempt = 0; impl_->has_sink && attempt < 10; ++attempt) {
    const std::unique_lock sink_lock(impl_->sink_mutex, std::try_to_lock);
    if (sink_lock) return impl_->deliver({level, rank(), Speaker::kRank, PlaceOfThread::now(), without_secrets(message)});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void Console::record(LogLevel level, std::string_view message) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->speaks(level, Speaker::kRank)) impl_->record(level, without_secrets(message), Speaker::kRank);
}

void Console::begin_run() {
  const std::lock_guard lock(impl_->mutex);
  impl_->warned.clear();
  ++impl_->runs;
}

void Console::warn_once(std::string_view message, std::string_view key, Speaker speaker) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (key.empty()) key = message;
    const bool is_new = impl_->warned.emplace(key).second;
    if (!is_new || !impl_->speaks(LogLevel::kWarning, speaker)) return;
    // Ranks keep the keys of all runs of their processes.
    const auto is_first = [&] {
      return impl_->is_first_in_run(impl_->runs < 2 ? key : format("{} in run {}", key, impl_->runs));
    };
    const bool others_said_it = speaker == Speaker::kRank && impl_->is_first_in_run && !is_first();
    if (others_said_it) return impl_->record(LogLevel::kWarning, without_secrets(message), speaker);
  }
  print(LogLevel::kWarning, message, speaker);
}

std::vector<std::string> Console::take_warnings() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->warnings, {});
}

void Console::ask_before_warning(FirstInRun is_first_in_run) {
  const std::lock_guard lock(impl_->mutex);
  impl_->is_first_in_run = std::move(is_first_in_run);
}

void Console::mark_reported(std::exception_ptr error) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reported.push_back(std::move(error));
}

bool Console::was_reported(const std::exception_ptr& error) const {
  const std::lock_guard lock(impl_->mutex);
  return std::find(impl_->reported.begin(), impl_->reported.end(), error) != impl_->reported.end();
}

bool Console::has_live_line() const { return impl_->live_fd >= 0 && !impl_->has_sink; }

int Console::live_line_width() const { return impl_->live_fd >= 0 ? static_cast<int>(impl_->live_width()) : 79; }

void Console::set_live_line(std::string_view text) {
  if (!has_live_line()) return;
  if (this == &instance()) {
    [[maybe_unused]] static const int registered = std::atexit([] { instance().keep_live_line(); });
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->live_text = one_line(text);
  impl_->live_shown = true;
  write_whole(impl_->live_fd, format("\r{}\033[K", fit_to_width(impl_->live_text, impl_->live_width())));
}

void Console::clear_live_line() {
  const std::lock_guard lock(impl_->mutex);
  if (std::exchange(impl_->live_shown, false)) write_whole(impl_->live_fd, kEraseLine);
}

void Console::keep_live_line() {
  const std::lock_guard lock(impl_->mutex);
  if (std::exchange(impl_->live_shown, false)) write_whole(impl_->live_fd, "\n");
}

TerminalSize Console::live_size() const { return terminal_size(impl_->live_fd); }

bool Console::live_colors() const { return terminal_has_color(impl_->live_fd); }

void Console::set_live_block(const std::vector<std::string>& lines, const TerminalSize& size) {
  if (!has_live_line() || lines.empty()) return;
  if (lines.size() == 1) {
    clear_live_block();
    return set_live_line(lines.front());
  }
  clear_live_line();
  const std::lock_guard lock(impl_->mutex);
  const DrawingScope drawing;
  if (!drawing) return;
  note_live_block(impl_->live_fd);
  impl_->block_shown = true;
  write_whole(impl_->live_fd, impl_->block.show(lines, size));
}

void Console::clear_live_block() {
  const std::lock_guard lock(impl_->mutex);
  if (!std::exchange(impl_->block_shown, false)) return;
  note_live_block(-1);
  write_whole(impl_->live_fd, LiveBlock::kRemove);
}

void set_message_sink(std::function<void(const Message&)> sink) { Console::instance().set_sink(std::move(sink)); }

void rank_zero_only(const std::function<void()>& function) {
  if (Console::instance().rank() == 0) function();
}

}  // namespace levin
