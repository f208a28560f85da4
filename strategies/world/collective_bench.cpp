#include "levin/strategies/world/collective_bench.h"

#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "levin/core/base/process.h"
#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "levin/strategies/world/process_world.h"
#include "levin/strategies/world/rank_groups.h"

namespace levin {
namespace {

constexpr std::int64_t kFloatBytes = 4;
/// So much is moved for each size, in all: small tensors often, large ones a few times.
constexpr std::int64_t kBytesOfSize = 32 << 20;
constexpr std::int64_t kLeastTimes = 3;
constexpr std::int64_t kMostTimes = 40;

std::int64_t times_of(std::int64_t bytes) { return std::clamp(kBytesOfSize / bytes, kLeastTimes, kMostTimes); }

/// Seconds of one call, on the slowest rank.
double time_calls(ControlGroup& group, std::int64_t times, const std::function<void()>& call) {
  RankExchange exchange(group);
  const Meeting meeting("timing collectives", "all measure the same collectives in the same order");
  call();
  // Ranks begin together.
  exchange.gather_values(0, meeting);
  const double start = steady_seconds();
  for (std::int64_t index = 0; index < times; ++index) call();
  const auto by_rank = exchange.gather_values((steady_seconds() - start) / static_cast<double>(times), meeting);
  return *std::max_element(by_rank.begin(), by_rank.end());
}

/// A call of the collective on a tensor, of which a rank has a part where they gather or scatter it.
std::function<void()> call_of(Collective collective, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                              const at::Tensor& tensor) {
  const int ranks = group->getSize();
  std::vector<at::Tensor> whole = {tensor};
  std::vector<at::Tensor> part = {torch::zeros({tensor.numel() / ranks}, tensor.options())};
  std::vector<std::vector<at::Tensor>> parts = {tensor.chunk(ranks)};
  return [=]() mutable {
    switch (collective) {
      case Collective::kAllReduce:
        return void(group->allreduce(whole)->wait());
      case Collective::kAllGather:
        return void(group->allgather(parts, part)->wait());
      case Collective::kReduceScatter:
        return void(group->reduce_scatter(part, parts)->wait());
      case Collective::kBroadcast:
        return void(group->broadcast(whole)->wait());
    }
  };
}

}  // namespace

double CollectiveTime::bus_bandwidth() const {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return throughput() * 2 * others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return throughput() * others;
    case Collective::kBroadcast:
      break;
  }
  return throughput();
}

CollectiveTime CollectiveBench::measure(Collective collective, std::int64_t bytes) const {
  const auto world = ProcessWorld::current();
  return measure(world->process_group(), world->gradient_transport(), collective, bytes);
}

CollectiveTime CollectiveBench::measure(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& name,
                                        Collective collective, std::int64_t bytes) const {
  const int ranks = group->getSize();
  const std::int64_t of_rank = std::max<std::int64_t>(1, bytes / kFloatBytes / ranks);
  at::Tensor tensor = torch::zeros({of_rank * ranks}, torch::TensorOptions(device_).dtype(torch::kFloat));
  const std::function<void()> call = call_of(collective, group, tensor);
  const auto call_and_finish = [&] {
    call();
    accelerator_.synchronize(device_);
  };
  const std::int64_t moved = tensor.numel() * kFloatBytes;
  return {.group = name,
          .collective = collective,
          .ranks = ranks,
          .bytes = moved,
          .seconds = time_calls(ProcessWorld::current()->control_group(), times_of(moved), call_and_finish)};
}

std::optional<CollectiveTime> CollectiveBench::measure_control_group(std::int64_t bytes) const {
  const auto world = ProcessWorld::current();
  ControlGroup& group = world->control_group();
  const int ranks = group.size();
  const std::vector<std::byte> mine(static_cast<std::size_t>(bytes / ranks));
  if (mine.empty() || mine.size() > kSmallTensorBytes) return std::nullopt;
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(ranks));
  const auto call = [&] { group.all_gather(mine, all, "timing collectives"); };
  const auto moved = static_cast<std::int64_t>(all.size());
  return CollectiveTime{
      .group = dynamic_cast<SharedMemoryGroup*>(&group) != nullptr ? "shared memory (metrics)" : "gloo (metrics)",
      .collective = Collective::kAllGather,
      .ranks = ranks,
      .bytes = moved,
      .seconds = time_calls(group, times_of(moved), call)};
}

std::vector<CollectiveTime> CollectiveBench::sweep(std::int64_t least, std::int64_t most) const {
  std::vector<CollectiveTime> times;
  const auto each_size = [&](const auto& take) {
    for (std::int64_t bytes = least; bytes <= most; bytes *= 4) take(bytes);
  };
  for (const auto& collective : kChoices<Collective>) {
    each_size([&](std::int64_t bytes) { times.push_back(measure(collective.value, bytes)); });
  }
  const auto world = ProcessWorld::current();
  if (device_.is_cpu() && world->gradient_transport() != "gloo") {
    const auto gloo = world->make_gloo_group("bench");
    for (const auto& collective : kChoices<Collective>) {
      each_size([&](std::int64_t bytes) { times.push_back(measure(gloo, "gloo", collective.value, bytes)); });
    }
  }
  each_size([&](std::int64_t bytes) {
    if (const auto time = measure_control_group(bytes)) times.push_back(*time);
  });
  return times;
}

}  // namespace levin
