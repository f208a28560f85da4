#include "levin/strategies/failure/status_board.h"

#include "levin/core/base/format.h"
#include "levin/strategies/failure/lost_links.h"

namespace levin {

StatusBoard::~StatusBoard() = default;

std::string different_calls(int rank, const std::string& what, int other, const std::string& place) {
  return format(
      "ranks are in different calls:\n  rank {}: {}\n  rank {}: the gradient reduction of {}, which cannot end before rank {} "
      "takes part in it",
      rank, what, other, place, rank);
}

void StatusBoard::report_stall(const std::string& waited) noexcept {
  try {
    // A rank behind a lost connection looks stalled from here, as this one does from there: neither process is to blame.
    const auto hosts = spans_hosts() ? unanswering_hosts() : std::vector<std::string>();
    if (const std::string lost = lost_connection_text(hosts); !lost.empty()) {
      return report_failure(
          {rank(), own_whereabouts(), format("{}: it {} (timeout_seconds). Ranks are:\n{}", lost, waited, table())});
    }
    const int culprit = stalled_rank().value_or(rank());
    const std::string who = culprit == rank() ? "it" : format("the others wait for it: rank {}", rank());
    report_failure({culprit, own_whereabouts(), format("{} {} (timeout_seconds). Ranks are:\n{}", who, waited, table())});
  } catch (const std::exception&) {
    report_failure({rank(), own_whereabouts(), "timeout_seconds"});
  }
}

}  // namespace levin
