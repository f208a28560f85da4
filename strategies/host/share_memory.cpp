#include "levin/strategies/host/share_memory.h"

#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

namespace {

/// `memory`: what this rank has already, if anything. `make()` and `open(place)` give it, or throw IoError.
template <class Memory, class Make, class Open>
Memory share(ControlGroup& group, int maker, Memory memory, const Make& make, const Open& open, std::string& failure) {
  std::string own_failure;
  const auto attempt = [&](const auto& get) {
    try {
      if (!memory) memory = get();
    } catch (const IoError& error) {
      own_failure = error.what();
    }
  };
  RankExchange ranks(group);
  const Meeting meeting("sharing memory", "every rank joins the run");
  const bool makes = group.rank() == maker;
  if (makes) attempt(make);
  const auto places = ranks.gather_values(makes && memory ? memory->place() : SharedFilePlace{}, meeting);
  const SharedFilePlace& place = places.at(static_cast<std::size_t>(maker));
  if (place.descriptor >= 0) attempt([&] { return open(place); });
  const std::vector<std::string> failures = ranks.gather_text(own_failure, meeting);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    failure = format("rank {}: {}", rank, failures[rank]);
    return Memory();
  }
  return memory;
}

}  // namespace

std::optional<SharedFile> share_memory(ControlGroup& group, int maker, std::size_t bytes, std::string& failure) {
  using Memory = std::shared_ptr<SharedFile>;
  const Memory shared = share(
      group, maker, Memory(), [&] { return std::make_shared<SharedFile>(SharedFile::create(bytes)); },
      [](const SharedFilePlace& place) { return std::make_shared<SharedFile>(SharedFile::open_at(place)); }, failure);
  return shared ? std::optional<SharedFile>(std::move(*shared)) : std::nullopt;
}

std::shared_ptr<RunSegment> share_segment(ControlGroup& group, int maker, int ranks, std::shared_ptr<RunSegment> launched,
                                          std::string& failure) {
  const auto segment = share(
      group, maker, std::move(launched), [&] { return RunSegment::create(ranks, maker); },
      [](const SharedFilePlace& place) { return RunSegment::open_at(place); }, failure);
  if (segment) segment->join(group.rank());
  return segment;
}

}  // namespace levin
