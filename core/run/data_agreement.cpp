#include "levin/core/run/data_agreement.h"

#include <sstream>
#include <vector>

#include "levin/core/base/format.h"
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
    text += format("{} ", share && share->ranks > 1 ? share->all : kNotShared);
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
    throw MisuseError(
        format("The {} data has {} loaders on rank 0 and {} on rank {}. Give every rank as many; one without data has none of "
               "its batches.",
               what, first.size(), other.size(), rank));
  }
  for (std::size_t index = 0; index < first.size(); ++index) {
    if (first[index] == other[index] || first[index] == kNotShared || other[index] == kNotShared) continue;
    const std::string which = first.size() > 1 ? format(", loader {}", index) : "";
    throw MisuseError(
        format("Ranks share the {} data{}, but it has {} samples on rank 0 and {} on rank {}. Give all ranks the same data, or "
               "divide it in a loader of your own.",
               what, which, first[index], other[index], rank));
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
