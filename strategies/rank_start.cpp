#include "levin/strategies/rank_start.h"

#include <ATen/Parallel.h>

#include <cstdlib>

#include "levin/strategies/processes/fork_server.h"

namespace levin {

bool start_ranks_here() {
  const bool chosen = std::getenv("OMP_NUM_THREADS") != nullptr;
  if (!ForkServer::instance().start()) return false;
  // OpenMP read its variables when LibTorch was loaded, before this process was a rank.
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (!chosen && threads != nullptr) at::set_num_threads(std::atoi(threads));
  return true;
}

}  // namespace levin
