#include "levin/strategies/distributed/module_synchronizer.h"

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "levin/strategies/distributed/bucket_vote_channel.h"
#include "levin/strategies/distributed/parameter_check.h"

namespace levin {

namespace {

/// Tensors travel in messages of up to this size when they are made equal to rank 0's.
constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;

/// As the table of a stalled run calls it.
constexpr const char* kReduction = "the gradient reduction";

bool has_trained_parameters(const torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad()) return true;
  }
  return false;
}

}  // namespace

ModuleSynchronizer::ModuleSynchronizer(ProcessWorld& world, torch::nn::Module& module, bool training,
                                       const GradientReducer::Options& options)
    : world_(world), module_(module) {
  check_same_parameters(module, world.control_group());
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& parameter : module.parameters()) tensors.push_back(parameter.detach());
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer.detach());
  broadcast(tensors);
  if (!training || !has_trained_parameters(module)) return;
  GradientReducer::Options with_waiting = options;
  with_waiting.on_last_gradient = [&board = world.board()] { board.post_waiting(kReduction); };
  world.board().begin_reduction();
  reducer_ = std::make_unique<GradientReducer>(module, world.process_group(), with_waiting, world.bucket_votes());
  world.board().end_reduction();
}

ModuleSynchronizer::~ModuleSynchronizer() = default;

void ModuleSynchronizer::broadcast(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  world_.board().begin_reduction();
  c10d::broadcast_coalesced(world_.process_group(), tensors, kBroadcastBytes);
  world_.board().end_reduction();
}

void ModuleSynchronizer::before_backward(const at::Tensor& loss) {
  // Votes are read after a reduction, so ranks must meet even when there is nothing to reduce.
  if (!reducer_ && world_.bucket_votes() != nullptr) return world_.bucket_votes()->exchange(world_.control_group());
  if (!reducer_) return world_.control_group().all_gather({}, {}, "a step without gradients");
  world_.board().begin_reduction();
  reducer_->prepare(loss);
  // This rank still computes: one that stays in its backward pass must not look like those that wait for it.
  if (reducer_->tells_last_gradient()) world_.board().post_waiting(nullptr);
}

void ModuleSynchronizer::check_reduced() const {
  if (reducer_) reducer_->check_finished();
}

void ModuleSynchronizer::backward_without_batch() {
  if (!reducer_) return before_backward({});
  world_.board().begin_reduction();
  reducer_->reduce_zeros();
  world_.board().end_reduction();
}

void ModuleSynchronizer::synchronize_buffers() {
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& buffer : module_.buffers()) buffers.push_back(buffer.detach());
  broadcast(buffers);
}

}  // namespace levin
