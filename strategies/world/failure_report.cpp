#include "levin/strategies/world/failure_report.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

namespace {

constexpr auto kBoardPatience = std::chrono::seconds(1);

/// How an error came about.
struct Origin {
  bool is_lost_connection = false;
  bool is_recorded_failure = false;  ///< it only says what was written down before
  bool is_final = false;             ///< of the configuration or the program: it would come again
  bool names_its_position = false;   ///< of the configuration, whose file and line it names
};

Origin origin_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionLost&) {
    return {.is_lost_connection = true};
  } catch (const c10::DistError&) {
    return {.is_lost_connection = true};  // NCCL's
  } catch (const RecordedFailure&) {
    return {.is_recorded_failure = true};
  } catch (const ConfigError&) {
    return {.is_final = true, .names_its_position = true};
  } catch (const MisuseError&) {
    return {.is_final = true};
  } catch (...) {
    return {};
  }
}

/// Another rank may be about to write its record.
void wait_for_record(const StatusBoard& board) {
  const auto deadline = std::chrono::steady_clock::now() + kBoardPatience;
  while (!board.failure() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void wait_for_the_cause(StatusBoard& board) {
  wait_for_record(board);
  if (board.failure()) return;
  if (const auto ended = board.ended_rank()) {
    // A rank behind a lost connection is silent, as one whose process has ended.
    const char* const link = board.spans_hosts() ? ", or its host cannot be reached" : "";
    board.report_failure(
        {.rank = *ended, .where = {}, .error = format("its process ended in the middle of the run{}", link), .is_lost = true});
  }
}

/// What the rank that had `own` says when `first` was before it.
std::string text_after(const FailureRecord& first, const FailureRecord& own, const Origin& origin) {
  if (origin.is_lost_connection || origin.is_recorded_failure) return consequence(own.rank, own.where, first);
  const std::string own_failure = format("rank {} failed ", own.rank);
  // All that ranks know of one another's errors is what each wrote down.
  if (own.error == first.error) return format("{}with the same error {}", own_failure, describe_place(own.where));
  return format("{}too, {}: {} (before it, {})", own_failure, describe_place(own.where), own.error, first.place());
}

}  // namespace

std::optional<std::string> report_own_failure(StatusBoard& board, const Whereabouts& where,
                                              const std::exception_ptr& error) noexcept {
  try {
    const Origin origin = origin_of(error);
    const FailureRecord own{board.rank(), where, error_text(error), origin.is_final};
    if (!board.failure() && origin.is_lost_connection) wait_for_the_cause(board);
    board.report_failure(own);
    wait_for_record(board);
    const FailureRecord first = board.failure().value_or(own);
    if (first.rank == board.rank()) {
      if (OwnProcess::is_one()) Console::instance().mark_reported(error);
      write_error_file(first);
      return std::nullopt;
    }
    if (own.error == first.error) board.post_failed_alike();
    const std::string text = text_after(first, own, origin);
    board.keep_explanation(text);
    write_consequence_file(text, first);
    return text;
  } catch (const std::exception&) {
    // Out of memory while reporting: the end of this process is what the others will see.
    return std::nullopt;
  }
}

void report_failure_alone(const Whereabouts& where, const std::exception_ptr& error) noexcept {
  try {
    const std::string text = error_text(error);
    write_error_file({0, where, text});
    if (origin_of(error).names_its_position) return;
    const std::string failed = format("failed {}: {}", describe_place(where), text);
    // A program that embeds levin learns of it only from the exception.
    if (!OwnProcess::is_one()) return Console::instance().record(LogLevel::kError, failed);
    Console::instance().error(failed);
    Console::instance().mark_reported(error);
  } catch (const std::exception&) {
    // Out of memory while reporting: the error itself is on its way.
  }
}

}  // namespace levin
