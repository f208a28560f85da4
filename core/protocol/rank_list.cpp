#include "levin/core/protocol/rank_list.h"

#include "levin/core/base/format.h"

namespace levin::detail {

std::string rank_list(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t start = 0; start < ranks.size();) {
    std::size_t end = start;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    if (end - start < 2) end = start;  // "0, 1" reads better than "0-1"
    if (start > 0) text += ", ";
    text += std::to_string(ranks[start]);
    if (end > start) text += format("-{}", ranks[end]);
    start = end + 1;
  }
  return text;
}

std::string rank_prefix(std::int64_t rank) { return std::string("rank_").append(std::to_string(rank)).append("_"); }

}  // namespace levin::detail
