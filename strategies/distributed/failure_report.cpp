#include "levin/strategies/distributed/failure_report.h"

#include <array>
#include <chrono>
#include <thread>

#include "levin/strategies/processes/error_file.h"

namespace levin {

namespace {

constexpr auto kPatience = std::chrono::milliseconds(500);

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

void wait_for_the_cause(RunBoard& board) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!board.failure() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (board.failure()) return;
  if (const auto ended = board.ended_rank()) {
    board.report_failure({*ended, {}, "its process ended in the middle of the run"});
  }
}

}  // namespace

void report_own_failure(RunBoard& board, const Whereabouts& where, const std::string& error) noexcept {
  try {
    if (!board.failure() && is_lost_connection(error)) wait_for_the_cause(board);
    const FailureRecord own{board.rank(), where, error};
    board.report_failure(own);
    write_error_file(own);
  } catch (const std::exception&) {
    // Out of memory while reporting: the end of this process is what the others will see.
  }
}

}  // namespace levin
