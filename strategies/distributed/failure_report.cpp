#include "levin/strategies/distributed/failure_report.h"

#include <array>
#include <chrono>
#include <thread>

#include "levin/core/console/told_errors.h"
#include "levin/strategies/processes/error_file.h"

namespace levin {

namespace {

constexpr auto kPatience = std::chrono::seconds(1);

bool is_lost_connection(const std::string& error) {
  constexpr std::array kSigns = {"Connection closed by peer",
                                 "Connection reset by peer",
                                 "Broken pipe",
                                 "Connection refused",
                                 "gloo",
                                 "recvBytes",
                                 "sendBytes"};
  for (const char* sign : kSigns) {
    if (error.find(sign) != std::string::npos) return true;
  }
  return false;
}

/// Another rank may be about to write its record.
void wait_for_record(const RunBoard& board) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!board.failure() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void wait_for_the_cause(RunBoard& board) {
  wait_for_record(board);
  if (board.failure()) return;
  if (const auto ended = board.ended_rank()) {
    board.report_failure({*ended, {}, "its process ended in the middle of the run"});
  }
}

/// What the rank that had `own` says when `first` was before it.
std::string text_after(const FailureRecord& first, const FailureRecord& own) {
  if (is_lost_connection(own.error) || own.error == first.str()) return consequence(own.rank, own.where, first);
  const std::string who = "rank " + std::to_string(own.rank) + " failed ";
  if (own.error == first.error) return who + "alike " + describe_place(own.where);
  return who + "too, " + describe_place(own.where) + ": " + own.error + " (before it, " + first.place() + ")";
}

}  // namespace

std::optional<std::string> report_own_failure(RunBoard& board, const Whereabouts& where, const std::string& error) noexcept {
  try {
    if (!board.failure() && is_lost_connection(error)) wait_for_the_cause(board);
    const FailureRecord own{board.rank(), where, error};
    board.report_failure(own);
    wait_for_record(board);
    const FailureRecord first = board.failure().value_or(own);
    if (first.rank == board.rank()) {
      mark_error_told(error);
      write_error_file(own);
      return std::nullopt;
    }
    board.post_explained();
    const std::string text = text_after(first, own);
    write_consequence_file(text, first);
    return text;
  } catch (const std::exception&) {
    // Out of memory while reporting: the end of this process is what the others will see.
    return std::nullopt;
  }
}

}  // namespace levin
