#include "levin/strategies/world/collective_bench.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <functional>

#include "levin/core/base/process.h"
#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "levin/strategies/world/process_world.h"

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
  const ExchangeSite site("timing collectives", "all measure the same collectives in the same order");
  call();
  // Ranks begin together.
  exchange.gather_values(0, site);
  const double start = steady_seconds();
  for (std::int64_t index = 0; index < times; ++index) call();
  const auto by_rank = exchange.gather_values((steady_seconds() - start) / static_cast<double>(times), site);
  return *std::max_element(by_rank.begin(), by_rank.end());
}

constexpr std::size_t kCollectives = 3;
struct Collective {
  const char* name;
  std::function<void()> call;
};

/// What ranks do together with a tensor, of which each has a part where they gather it.
std::array<Collective, kCollectives> collectives_on(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                    const at::Tensor& tensor) {
  const int ranks = group->getSize();
  std::vector<at::Tensor> whole = {tensor};
  std::vector<at::Tensor> part = {torch::zeros({tensor.numel() / ranks}, tensor.options())};
  std::vector<std::vector<at::Tensor>> parts = {tensor.chunk(ranks)};
  return {{{"all_reduce", [=]() mutable { group->allreduce(whole)->wait(); }},
           {"all_gather", [=]() mutable { group->allgather(parts, part)->wait(); }},
           {"broadcast", [=]() mutable { group->broadcast(whole)->wait(); }}}};
}

}  // namespace

double CollectiveTime::bus_bandwidth() const {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (collective == "broadcast") return throughput();
  return throughput() * others * (collective == "all_reduce" ? 2 : 1);
}

std::vector<CollectiveTime> measure_collectives(const Accelerator& accelerator, at::Device device, std::int64_t least,
                                                std::int64_t most) {
  const auto world = ProcessWorld::current();
  ControlGroup& control = world->control_group();
  const int ranks = control.size();
  std::vector<CollectiveTime> times;
  const auto each_size = [&](const auto& take) {
    for (std::int64_t bytes = least; bytes <= most; bytes *= 4) take(bytes);
  };
  const auto measure = [&](const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& name) {
    for (std::size_t which = 0; which < kCollectives; ++which) {
      each_size([&](std::int64_t bytes) {
        const std::int64_t of_rank = std::max<std::int64_t>(1, bytes / kFloatBytes / ranks);
        const at::Tensor tensor = torch::zeros({of_rank * ranks}, torch::TensorOptions(device).dtype(torch::kFloat));
        const std::int64_t moved = tensor.numel() * kFloatBytes;
        const Collective collective = collectives_on(group, tensor)[which];
        const auto call = [&] {
          collective.call();
          accelerator.synchronize(device);
        };
        times.push_back({name, collective.name, ranks, moved, time_calls(control, times_of(moved), call)});
      });
    }
  };
  measure(world->process_group(), world->gradient_transport());
  if (device.is_cpu() && world->gradient_transport() != "gloo") measure(world->make_gloo_group("bench"), "gloo");
  const bool is_shared = dynamic_cast<SharedMemoryGroup*>(&control) != nullptr;
  each_size([&](std::int64_t bytes) {
    const std::vector<std::byte> mine(static_cast<std::size_t>(bytes / ranks));
    if (mine.empty() || mine.size() > kSmallTensorBytes) return;
    std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(ranks));
    const auto moved = static_cast<std::int64_t>(all.size());
    const auto call = [&] { control.all_gather(mine, all, "timing collectives"); };
    times.push_back({is_shared ? "shared memory (metrics)" : "gloo (metrics)", "all_gather", ranks, moved,
                     time_calls(control, times_of(moved), call)});
  });
  return times;
}

}  // namespace levin
