#include "levin/strategies/transport/failure_report.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/strategies/failure/error_file.h"
#include "levin/strategies/failure/lost_links.h"
#include "levin/strategies/failure/peer_errors.h"

namespace levin {

namespace {

constexpr auto kBoardPatience = std::chrono::seconds(1);

/// How an error came about.
struct Origin {
  bool is_lost_connection = false;
  bool is_closed_by_peer = false;    ///< the other host has said so: it is there
  bool is_recorded_failure = false;  ///< it only says what was written down before
  bool is_final = false;             ///< of the configuration or the program: it would come again
};

Origin origin_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionLost& lost) {
    return {.is_lost_connection = true, .is_closed_by_peer = lost.closed_by_peer()};
  } catch (const c10::DistError&) {
    return {.is_lost_connection = true};  // NCCL's
  } catch (const RecordedFailure&) {
    return {.is_recorded_failure = true};
  } catch (const ConfigError&) {
    return {.is_final = true};
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

void wait_for_the_cause(StatusBoard& board, const FailureRecord& own, const Origin& origin) {
  wait_for_record(board);
  if (board.failure()) return;
  // A rank behind a lost connection is silent, as one whose process has ended.
  const bool may_be_lost = board.spans_hosts() && !origin.is_closed_by_peer;
  const auto lost = may_be_lost ? unanswering_hosts() : std::vector<std::string>();
  if (!lost.empty()) return board.report_failure({own.rank, own.where, lost_connection_text(lost)});
  if (const auto ended = board.ended_rank()) {
    board.report_failure({.rank = *ended, .where = {}, .error = "its process ended in the middle of the run", .is_lost = true});
  }
}

/// What the rank that had `own` says when `first` was before it.
std::string text_after(const FailureRecord& first, const FailureRecord& own, const Origin& origin) {
  if (origin.is_lost_connection || origin.is_recorded_failure) return consequence(own.rank, own.where, first);
  const std::string who = format("rank {} failed ", own.rank);
  // All that ranks know of one another's errors is what each wrote down.
  if (own.error == first.error) return format("{}alike {}", who, describe_place(own.where));
  return format("{}too, {}: {} (before it, {})", who, describe_place(own.where), own.error, first.place());
}

}  // namespace

std::optional<std::string> report_own_failure(StatusBoard& board, const Whereabouts& where,
                                              const std::exception_ptr& error) noexcept {
  try {
    const Origin origin = origin_of(error);
    const FailureRecord own{board.rank(), where, error_text(error), origin.is_final};
    if (!board.failure() && origin.is_lost_connection) wait_for_the_cause(board, own, origin);
    board.report_failure(own);
    wait_for_record(board);
    const FailureRecord first = board.failure().value_or(own);
    if (first.rank == board.rank()) {
      if (OwnProcess::is_one()) Console::instance().mark_told(error);
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

}  // namespace levin
