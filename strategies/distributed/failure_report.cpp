#include "levin/strategies/distributed/failure_report.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <thread>
#include <vector>

#include "levin/core/console/told_errors.h"
#include "levin/strategies/processes/error_file.h"
#include "levin/strategies/processes/lost_links.h"

namespace levin {

namespace {

constexpr auto kBoardPatience = std::chrono::seconds(1);

bool has_one_of(const std::string& error, std::initializer_list<const char*> signs) {
  return std::any_of(signs.begin(), signs.end(), [&](const char* sign) { return error.find(sign) != std::string::npos; });
}

/// The other host has said so: it is there.
bool is_closed_by_peer(const std::string& error) {
  return has_one_of(error, {"Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused"});
}

bool is_lost_connection(const std::string& error) {
  return is_closed_by_peer(error) || has_one_of(error, {"gloo", "recvBytes", "sendBytes"});
}

/// Another rank may be about to write its record.
void wait_for_record(const RunBoard& board) {
  const auto deadline = std::chrono::steady_clock::now() + kBoardPatience;
  while (!board.failure() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void wait_for_the_cause(RunBoard& board, const FailureRecord& own) {
  wait_for_record(board);
  if (board.failure()) return;
  // A rank behind a lost connection is silent, as one whose process has ended.
  const bool may_be_lost = board.spans_hosts() && !is_closed_by_peer(own.error);
  const auto lost = may_be_lost ? unanswering_hosts() : std::vector<std::string>();
  if (!lost.empty()) return board.report_failure({own.rank, own.where, lost_connection_text(lost)});
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
    const FailureRecord own{board.rank(), where, error};
    if (!board.failure() && is_lost_connection(error)) wait_for_the_cause(board, own);
    board.report_failure(own);
    wait_for_record(board);
    const FailureRecord first = board.failure().value_or(own);
    if (first.rank == board.rank()) {
      mark_error_told(error);
      write_error_file(first);
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
