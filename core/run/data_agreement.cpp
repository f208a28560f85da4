#include "levin/core/run/data_agreement.h"

#include <sstream>
#include <vector>

#include "levin/core/batch_loader.h"
#include "levin/core/error.h"
#include "levin/core/protocol/rank_exchange.h"

namespace levin {
namespace {

constexpr std::int64_t kNotShared = -1;

// A number for each loader, as a text: its samples, over all ranks.
std::string describe(const LoaderList& loaders) {
  std::string text;
  for (const LoaderPtr& loader : loaders) {
    const auto share = loader->sample_share();
    text += std::to_string(share && share->ranks > 1 ? share->all : kNotShared) + " ";
  }
  return text;
}

std::vector<std::int64_t> read(const std::string& text) {
  std::istringstream numbers(text);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 0; numbers >> size;) sizes.push_back(size);
  return sizes;
}

void compare(const std::string& what, const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& other,
             std::size_t rank) {
  if (first.size() != other.size()) {
    throw MisuseError("The " + what + " data has " + std::to_string(first.size()) + " loaders on rank 0 and " +
                      std::to_string(other.size()) + " on rank " + std::to_string(rank) +
                      ". Give every rank as many; one without data has none of its batches.");
  }
  for (std::size_t index = 0; index < first.size(); ++index) {
    if (first[index] == other[index] || first[index] == kNotShared || other[index] == kNotShared) continue;
    const std::string which = first.size() > 1 ? ", loader " + std::to_string(index) : "";
    throw MisuseError("Ranks share the " + what + " data" + which + ", but it has " + std::to_string(first[index]) +
                      " samples on rank 0 and " + std::to_string(other[index]) + " on rank " + std::to_string(rank) +
                      ". Give all ranks the same data, or divide it in a loader of your own.");
  }
}

}  // namespace

void check_same_data(ControlGroup& group, const std::string& what, const LoaderList& loaders) {
  if (group.size() == 1) return;
  const std::string mine = describe(loaders);
  const auto texts = RankExchange(group).gather_if_different(
      mine, {"comparing the sizes of the " + what + " data", "all ask for their loaders at the same places of a run"});
  for (std::size_t rank = 1; texts && rank < texts->size(); ++rank) {
    compare(what, read(texts->front()), read((*texts)[rank]), rank);
  }
}

}  // namespace levin
