#include "levin/strategies/failure/status_board.h"

#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"

namespace levin {

namespace {

/// More than it takes torchrun to notice the end of the rank that failed first.
constexpr auto kAfterTheCause = std::chrono::seconds(5);

/// `text()`: the error.
template <class Text>
void write_error(const Text& text, std::chrono::system_clock::time_point time) noexcept {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  try {
    const std::string message = text();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
    const nlohmann::json content = {
        {"message",
         {{"message", message}, {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
    // torchrun may read at any moment.
    AtomicFile file(path, AtomicFile::MissingFolder::kRefuse);
    // An error text may hold any bytes; JSON holds UTF-8 only.
    file.write(content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    file.commit(AtomicFile::Disk::kLeaveToKernel);
  } catch (const std::bad_alloc&) {
    // The error itself is on stderr.
  } catch (const std::exception& error) {
    print_report(format("TORCHELASTIC_ERROR_FILE={} could not be written: {}", path, error.what()));
  }
}

}  // namespace

std::string FailureRecord::place() const { return format("rank {} failed {}", rank, describe_place(where)); }

std::string FailureRecord::str() const { return format("{}: {}", place(), error); }

std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause) {
  return format("rank {} ended {}, because {}", rank, describe_place(where), cause.place());
}

void print_report(const std::string& text) {
  if (Console::instance().hand_to_sink(LogLevel::kError, text)) return;
  // A progress bar may stand on the terminal's last line.
  const std::string line = format("{}{}\n", isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", text);
  // One write: lines of several processes do not mix. Nothing can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void print_failure(const FailureRecord& failure) noexcept {
  if (!OwnProcess::is_one()) return;
  try {
    print_report("levin: " + failure.str());
  } catch (const std::exception&) {
    // Out of memory: the record itself needs none.
  }
}

void write_error_file(const FailureRecord& failure) noexcept {
  write_error([&] { return failure.str(); }, std::chrono::system_clock::now());
}

void write_consequence_file(const std::string& consequence, const FailureRecord& cause) noexcept {
  if (std::getenv("LEVIN_LAUNCHED") != nullptr) return;
  write_error([&] { return format("{}\n{}", consequence, cause.str()); }, std::chrono::system_clock::now() + kAfterTheCause);
}

StatusBoard::~StatusBoard() = default;

std::string different_calls(int rank, const std::string& what, int other, const std::string& place) {
  return format(
      "ranks are in different calls:\n  rank {}: {}\n  rank {}: the gradient reduction of {}, which cannot end before rank {} "
      "takes part in it",
      rank, what, other, place, rank);
}

void StatusBoard::report_stall(const std::string& waited) noexcept {
  try {
    const int culprit = stalled_rank().value_or(rank());
    const std::string who = culprit == rank() ? "it" : format("the others wait for it: rank {}", rank());
    report_failure({culprit, own_whereabouts(), format("{} {} (timeout_seconds). Ranks are:\n{}", who, waited, table())});
  } catch (const std::exception&) {
    report_failure({rank(), own_whereabouts(), "timeout_seconds"});
  }
}

FailureWatch::FailureWatch(std::shared_ptr<StatusBoard> board, Settings settings)
    : board_(std::move(board)), settings_(std::move(settings)) {
  thread_ = quiet_thread([this] { run(); });
}

FailureWatch::~FailureWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool FailureWatch::stopped_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, time, [this] { return stop_; });
}

void FailureWatch::run() {
  while (!stopped_within(std::chrono::milliseconds(0))) {
    board_->wait_for_failure(std::chrono::milliseconds(100));
    if (const auto failure = board_->failure()) {
      const bool own = failure->rank == board_->rank();
      if (stopped_within(own ? settings_.own_grace : settings_.grace)) return;
      // Whoever found this rank stalled has told it.
      if (own) write_error_file(*failure);
      return settings_.end_process(own ? "" : last_word_on(*failure));
    }
    check_wait();
    if (const auto ended = board_->unattended_rank()) {
      board_->report_failure(
          {.rank = *ended, .where = {}, .error = "its process ended in the middle of the run", .is_lost = true});
    }
  }
}

std::string FailureWatch::last_word_on(const FailureRecord& failure) {
  if (board_->has_explained()) return {};
  board_->post_explained();
  const std::string line = board_->explanation().value_or(consequence(board_->rank(), board_->own_whereabouts(), failure));
  write_consequence_file(line, failure);
  return "levin:   " + line;
}

void FailureWatch::check_wait() {
  const auto wait = board_->waiting();
  if (!wait) return;
  const std::string waited = format("waited {} s in {}", static_cast<int>(wait->seconds), wait->what);
  if (wait->in_reduction && wait->seconds > settings_.timeouts.timeout_seconds) {
    board_->report_stall(waited);
  } else if (wait->seconds > settings_.timeouts.stall_report_seconds &&
             board_->claim_stall_report(settings_.timeouts.stall_report_seconds)) {
    settings_.print(format("rank {} has {}. Ranks are:\n{}", board_->rank(), waited, board_->table()));
  }
}

}  // namespace levin
