#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/options/option_type.h"

namespace levin {

/// What ranks do together with a tensor.
enum class Collective : std::uint8_t { kAllReduce, kAllGather, kBroadcast, kReduceScatter };
template <>
inline constexpr std::array kChoices<Collective> = {
    Choice{Collective::kAllReduce, "all_reduce"}, Choice{Collective::kAllGather, "all_gather"},
    Choice{Collective::kBroadcast, "broadcast"}, Choice{Collective::kReduceScatter, "reduce_scatter"}};

/// What a collective took. Throughputs are nccl-tests', in GB (10^9 bytes) a second.
struct CollectiveTime {
  std::string group;  ///< "shared memory", "gloo (metrics)"
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  std::int64_t bytes = 0;  ///< of the whole tensor: what is reduced or broadcast, what all have gathered, what is scattered
  double seconds = 0;      ///< on the slowest rank

  /// Bytes of the tensor in a second.
  double throughput() const { return static_cast<double>(bytes) / seconds / 1e9; }
  /// What each link carries, by the collective's own lower bound: it can be compared with the hardware's, and over any number
  /// of ranks.
  double bus_bandwidth() const;
};

/// Measures collectives among the ranks that this process has joined. Ranks: all, for every method, with the same arguments.
class CollectiveBench {
 public:
  /// Tensors are on `device`.
  CollectiveBench(const Accelerator& accelerator, at::Device device) : accelerator_(accelerator), device_(device) {}

  /// Over the process group, in which gradients travel. The tensor has so many bytes, less what does not divide over ranks.
  CollectiveTime measure(Collective collective, std::int64_t bytes) const;
  /// The same over another group; `name`: for people.
  CollectiveTime measure(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& name, Collective collective,
                         std::int64_t bytes) const;
  /// all_gather over the group of metrics, which carries small tensors too; unset for larger ones.
  std::optional<CollectiveTime> measure_control_group(std::int64_t bytes) const;
  /// Every group and collective, for sizes from `least` to `most` bytes, each four times the one before. Where gradients do not
  /// travel over Gloo, it is measured too, on the CPU.
  std::vector<CollectiveTime> sweep(std::int64_t least, std::int64_t most) const;

 private:
  const Accelerator& accelerator_;
  at::Device device_;
};

}  // namespace levin
