#include "levin/strategies/processes/share_memory.h"

#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/protocol/rank_exchange.h"

namespace levin {

std::optional<SharedFile> share_memory(ControlGroup& group, std::size_t bytes, std::string& failure) {
  std::optional<SharedFile> memory;
  std::string own_failure;
  const auto attempt = [&](const auto& get) {
    try {
      memory.emplace(get());
    } catch (const IoError& error) {
      own_failure = error.what();
    }
  };
  RankExchange ranks(group);
  const Meeting meeting("sharing memory", "every rank joins the run");
  if (group.rank() == 0) attempt([&] { return SharedFile::create(bytes); });
  const SharedFilePlace place = ranks.broadcast_value(memory ? memory->place() : SharedFilePlace{}, meeting);
  if (group.rank() != 0 && place.descriptor >= 0) attempt([&] { return SharedFile::open_at(place); });
  const std::vector<std::string> failures = ranks.gather_text(own_failure, meeting);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    failure = format("rank {}: {}", rank, failures[rank]);
    return std::nullopt;
  }
  return memory;
}

}  // namespace levin
