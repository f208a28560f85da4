#include "levin/strategies/distributed/process_world.h"

#include <unistd.h>

#include <functional>
#include <random>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "levin/core/console/shared_warnings.h"
#include "levin/core/error.h"
#include "levin/strategies/cuda/cuda_api.h"
#include "levin/strategies/cuda/cuda_library.h"
#include "levin/strategies/distributed/bucket_vote_board.h"
#include "levin/strategies/distributed/gloo_control_group.h"
#include "levin/strategies/distributed/rendezvous.h"
#include "levin/strategies/distributed/store_board.h"
#include "levin/strategies/processes/shared_memory_group.h"
#include "levin/strategies/processes/shared_memory_vote_board.h"

namespace levin {

namespace {

std::string get_text(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

void set_text(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

/// Memory for ranks that nobody launched together: rank 0 makes it, the others open it by the name it left in the store, and
/// the name is gone as soon as all have it. Null on every rank when one of them could not open it.
std::shared_ptr<RunSegment> meet_in_named_segment(c10d::Store& store, const ClusterEnvironment& environment) {
  std::shared_ptr<RunSegment> segment;
  std::string name;
  try {
    if (environment.rank == 0) {
      name = "/levin-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device()());
      segment = RunSegment::create_named(name, environment.world_size);
      set_text(store, "segment", name);
    } else {
      segment = RunSegment::attach_named(get_text(store, "segment"));
    }
  } catch (const IoError&) {
    if (environment.rank == 0) set_text(store, "segment", "/levin-none");
  }
  set_text(store, "attached/" + std::to_string(environment.rank), segment ? "yes" : "no");
  bool all = true;
  for (int rank = 0; rank < environment.world_size; ++rank) all &= get_text(store, "attached/" + std::to_string(rank)) == "yes";
  if (environment.rank == 0 && !name.empty()) RunSegment::remove_name(name);
  return all ? segment : nullptr;
}

}  // namespace

std::shared_ptr<ProcessWorld> ProcessWorld::join(const ClusterEnvironment& environment, const Options& options) {
  // Never destroyed: threads of the groups may still run while the program's static objects go.
  static auto* const world = new std::shared_ptr<ProcessWorld>;
  if (!*world) world->reset(new ProcessWorld(environment, options));
  return *world;
}

ProcessWorld::ProcessWorld(const ClusterEnvironment& environment, const Options& options)
    : environment_(environment), store_(join_store(environment, options.limits.timeout_seconds)) {
  const bool one_host =
      environment.world_size == 1 || environment.kind == ClusterKind::kLevin || all_on_one_host(*store_, environment);
  if (options.control_group == "shared_memory" && !one_host) {
    throw ConfigError("strategy ddp: control_group: shared_memory needs all ranks on one host; leave it out, or use gloo");
  }
  const bool joined = options.control_group != "gloo" && one_host && join_shared_memory(options);
  if (!joined) {
    if (options.control_group == "shared_memory") throw ConfigError("strategy ddp: the ranks cannot share memory (/dev/shm)");
    join_over_network(options, one_host);
  }
  watch_ = std::make_unique<FailureWatch>(board_, FailureWatch::Settings{.limits = options.limits, .end_process = {}});
  process_group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, environment.rank, environment.world_size);
  process_group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                             make_gloo_backend(store_, "gradients", environment, one_host, options.limits.timeout_seconds));
  if (options.use_cuda) {
    process_group_->setBackend(
        c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
        cuda_api().make_nccl_backend(c10::make_intrusive<c10d::PrefixStore>("nccl", store_), environment.rank,
                                     environment.world_size, options.limits.timeout_seconds));
  }
}

bool ProcessWorld::join_shared_memory(const Options& options) {
  std::shared_ptr<RunSegment> segment;
  if (environment_.shared_memory_fd) {
    segment = RunSegment::attach(*environment_.shared_memory_fd);
  } else if (environment_.world_size == 1) {
    segment = RunSegment::create(1);
  } else {
    segment = meet_in_named_segment(*store_, environment_);
  }
  if (!segment) return false;
  share_warnings(
      [segment](std::string_view text) { return segment->header().warnings.is_first(std::hash<std::string_view>{}(text)); });
  const auto board = std::make_shared<SharedMemoryBoard>(segment, environment_.rank);
  control_group_ = std::make_unique<SharedMemoryGroup>(segment, board, options.limits);
  vote_board_ = std::make_unique<SharedMemoryVoteBoard>(segment, board);
  board_ = board;
  return true;
}

void ProcessWorld::join_over_network(const Options& options, bool one_host) {
  const double timeout = options.limits.timeout_seconds;
  board_ = std::make_shared<StoreBoard>(store_, environment_.rank, environment_.world_size);
  control_group_ = std::make_unique<GlooControlGroup>(make_gloo_backend(store_, "control", environment_, one_host, timeout),
                                                      board_, options.limits);
  if (options.use_cuda) {
    // Gradients are on GPUs: to read votes out of a bucket would wait for them.
    vote_board_ = std::make_unique<GlooVoteBoard>(make_gloo_backend(store_, "votes", environment_, one_host, timeout), board_);
  } else {
    auto votes = std::make_unique<BucketVoteBoard>(board_);
    bucket_votes_ = votes.get();
    vote_board_ = std::move(votes);
  }
}

}  // namespace levin
