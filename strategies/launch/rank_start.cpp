#include "levin/strategies/launch/rank_start.h"

#include <ATen/Parallel.h>

#include <cstdlib>

#include "levin/core/console/console.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/launch/rank_process.h"

namespace levin {

bool start_ranks_here() {
  const bool chosen = std::getenv("OMP_NUM_THREADS") != nullptr;
  if (!ForkServer::instance().start()) return false;
  // OpenMP read its variables when LibTorch was loaded, before this process was a rank.
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (!chosen && threads != nullptr) at::set_num_threads(std::atoi(threads));
  return true;
}

std::optional<int> launch_of_this_rank() {
  const char* const call = std::getenv("LEVIN_LAUNCH_CALL");
  const auto environment = find_cluster_environment();
  if (call == nullptr || !environment || environment->kind != ClusterKind::kLevin) return std::nullopt;
  return std::atoi(call);
}

void introduce_rank() {
  const auto environment = find_cluster_environment();
  if (environment) Console::instance().configure({.rank = environment->rank, .world_size = environment->world_size});
}

}  // namespace levin
