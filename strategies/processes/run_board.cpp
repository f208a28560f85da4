#include "levin/strategies/processes/run_board.h"

#include "levin/strategies/processes/lost_links.h"

namespace levin {

RunBoard::~RunBoard() = default;

std::string different_calls(int rank, const std::string& what, int other, const std::string& place) {
  return "ranks are in different calls:\n  rank " + std::to_string(rank) + ": " + what + "\n  rank " + std::to_string(other) +
         ": the gradient reduction of " + place + ", which cannot end before rank " + std::to_string(rank) +
         " takes part in it";
}

void RunBoard::report_stall(const std::string& waited) noexcept {
  try {
    // A rank behind a lost connection looks stalled from here, as this one does from there: neither process is to blame.
    const auto hosts = spans_hosts() ? unanswering_hosts() : std::vector<std::string>();
    if (const std::string lost = lost_connection_text(hosts); !lost.empty()) {
      return report_failure(
          {rank(), own_whereabouts(), lost + ": it " + waited + " (timeout_seconds). Ranks are:\n" + table()});
    }
    const int culprit = stalled_rank().value_or(rank());
    const std::string who = culprit == rank() ? "it" : "the others wait for it: rank " + std::to_string(rank());
    report_failure({culprit, own_whereabouts(), who + " " + waited + " (timeout_seconds). Ranks are:\n" + table()});
  } catch (const std::exception&) {
    report_failure({rank(), own_whereabouts(), "timeout_seconds"});
  }
}

}  // namespace levin
