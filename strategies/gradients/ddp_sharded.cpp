#include "levin/strategies/gradients/ddp_sharded.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/strategies/gradients/gradient_reducer.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

LEVIN_REGISTER_(Strategy, ShardedDdpStrategy, "ddp_sharded",
                "ddp in which each rank keeps a share of the optimizers' state (ZeRO-1)");

namespace {

/// Weights of less than that many bytes travel together.
constexpr std::size_t kGatherBytes = std::size_t{1} << 20;

const char* const kStates = "optimizer_states";

/// The state of the parameters of optimizer number `index`, by their number.
Value* states_of(Checkpoint& checkpoint, std::size_t index) {
  Value* const all = checkpoint.manifest.find(kStates);
  if (all == nullptr || !all->is_list() || index >= all->size()) return nullptr;
  return all->as_list()[index].find("state");
}

/// "state.3.exp_avg" of "optimizer_states.0.state.3.exp_avg" belongs to parameter 3.
std::size_t parameter_of(const std::string& tensor) {
  const std::string kPart = ".state.";
  return std::stoul(tensor.substr(tensor.find(kPart) + kPart.size()));
}

bool is_state(const std::string& tensor, std::size_t index) {
  return tensor.starts_with(format("{}.{}.state.", kStates, index));
}

/// What a rank has, for the others to read: numbers, and of the tensors that follow types and sizes.
std::string describe(Checkpoint& own, std::size_t index) {
  Value::Map tensors;
  for (const auto& [name, tensor] : own.tensors) {
    Value::List layout = {static_cast<int>(tensor.scalar_type())};
    for (const std::int64_t size : tensor.sizes()) layout.emplace_back(size);
    tensors.emplace_back(name, std::move(layout));
  }
  return to_json(Value::Map{{"state", *states_of(own, index)}, {"tensors", std::move(tensors)}});
}

/// A tensor as one that a rank has described.
at::Tensor room_for(const Value& layout, at::Device device) {
  std::vector<std::int64_t> sizes;
  for (const Value& size : layout.as_list()) sizes.push_back(size.as_int());
  const auto type = static_cast<at::ScalarType>(sizes.front());
  sizes.erase(sizes.begin());
  return torch::empty(sizes, torch::TensorOptions(device).dtype(type));
}

}  // namespace

void ShardedDdpStrategy::setup_module(Module& module, bool training) {
  forget_shares();
  states_at_end_.clear();
  DdpStrategy::setup_module(module, training);
}

void ShardedDdpStrategy::release_module() noexcept {
  forget_shares();
  DdpStrategy::release_module();
}

void ShardedDdpStrategy::forget_shares() noexcept {
  owners_.clear();
  loads_.clear();
  stepped_.clear();
  reported_.clear();
}

void ShardedDdpStrategy::divide(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> added;
  for (const at::Tensor& parameter : parameters) {
    if (!owners_.contains(parameter.unsafeGetTensorImpl())) added.push_back(parameter);
  }
  std::stable_sort(added.begin(), added.end(),
                   [](const at::Tensor& one, const at::Tensor& other) { return one.numel() > other.numel(); });
  loads_.resize(static_cast<std::size_t>(world_size()));
  for (const at::Tensor& parameter : added) {
    const auto least = std::min_element(loads_.begin(), loads_.end());
    owners_[parameter.unsafeGetTensorImpl()] = {parameter, static_cast<int>(least - loads_.begin())};
    *least += parameter.numel();
  }
}

void ShardedDdpStrategy::check_same_step(const std::vector<at::Tensor>& parameters) const {
  std::vector<std::byte> mine;
  for (const at::Tensor& parameter : parameters) mine.push_back(std::byte{parameter.grad().defined()});
  const std::vector<std::byte> all =
      RankExchange(control_group()).gather_bytes(mine, {"a step of a sharded optimizer", "all ranks step the same optimizers"});
  for (std::size_t at = 0; at < all.size(); ++at) {
    const std::size_t index = at % mine.size();
    if (all[at] == all[index]) continue;
    throw DesyncError(
        format("strategy ddp_sharded: parameter {} of the optimizer has a gradient on rank {} and none on rank {}, so they "
               "would step it differently. Reduce gradients before the step: manual_backward(loss) with synchronize.",
               index, all[at] == std::byte{} ? 0 : at / mine.size(), all[at] == std::byte{} ? at / mine.size() : 0));
  }
}

void ShardedDdpStrategy::before_optimizer_step(torch::optim::Optimizer& optimizer) {
  if (world_size() == 1) return;
  if (!steps_parameters_alone(optimizer) || dynamic_cast<const EvaluatedWeights*>(&optimizer) != nullptr) {
    throw ConfigError(format(
        "strategy ddp_sharded: the state of {} cannot be divided over ranks. Supported are optimizers that step each parameter "
        "by itself and evaluate with the trained weights: all of LibTorch's except LBFGS, all of levin's except the "
        "schedule-free ones, and those that derive from levin::OptimizerOf. Use one of them, or strategy: ddp.",
        optimizer_class_name(optimizer)));
  }
  states_at_end_.clear();
  stepped_.clear();
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  divide(parameters);
  check_same_step(parameters);
  for (const at::Tensor& parameter : parameters) {
    if (!is_own(parameter)) optimizer.state().erase(parameter.unsafeGetTensorImpl());
    if (!parameter.grad().defined()) continue;
    stepped_.push_back({parameter, parameter.grad(), owner_of(parameter)});
    if (!is_own(parameter)) parameter.mutable_grad().reset();
  }
}

void ShardedDdpStrategy::after_optimizer_step(torch::optim::Optimizer& optimizer) {
  DdpStrategy::after_optimizer_step(optimizer);
  if (stepped_.empty()) return;
  for (Stepped& stepped : stepped_) stepped.parameter.mutable_grad() = stepped.gradient;
  // Neighbours in this order belong to different ranks, so that each message has about as much of all.
  std::stable_sort(stepped_.begin(), stepped_.end(),
                   [](const Stepped& one, const Stepped& other) { return one.parameter.numel() > other.parameter.numel(); });
  gather_weights();
  stepped_.clear();
  report_memory(optimizer);
}

void ShardedDdpStrategy::gather_weights() const {
  const at::NoGradGuard no_grad;
  ProcessWorld& world = *ProcessWorld::current();
  world.board().begin_reduction();
  std::vector<std::vector<at::Tensor>> small(static_cast<std::size_t>(world_size()));
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (const Stepped& stepped : stepped_) {
    if (stepped.parameter.nbytes() < kGatherBytes) {
      small[static_cast<std::size_t>(stepped.owner)].push_back(as_real(stepped.parameter));
      continue;
    }
    // From parameter to parameter: a copy of all weights would cost the memory that is to be saved.
    std::vector<at::Tensor> parameter = {as_real(stepped.parameter)};
    c10d::BroadcastOptions options;
    options.rootRank = stepped.owner;
    works.push_back(world.process_group()->broadcast(parameter, options));
  }
  for (const auto& work : works) work->wait();
  for (int owner = 0; owner < world_size(); ++owner) {
    const std::vector<at::Tensor>& parameters = small[static_cast<std::size_t>(owner)];
    if (!parameters.empty()) c10d::broadcast_coalesced(world.process_group(), parameters, kGatherBytes, owner);
  }
  world.board().end_reduction();
}

void ShardedDdpStrategy::report_memory(const torch::optim::Optimizer& optimizer) {
  std::size_t& reported = reported_[&optimizer];
  if (reported == optimizer.state().size()) return;
  reported = optimizer.state().size();
  Checkpoint own;
  Strategy::save_optimizer(optimizer, 0, own, /*all_ranks=*/true);
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : own.tensors) bytes += tensor.nbytes();
  rank_info(format("{} stores the state of {} of {} parameters: {:.3f} MB", optimizer_class_name(optimizer), reported,
                   all_parameters(optimizer).size(), static_cast<double>(bytes) * 1e-6));
}

Checkpoint ShardedDdpStrategy::gathered(const torch::optim::Optimizer& optimizer, std::size_t index) {
  Checkpoint own;
  for (std::size_t before = 0; before < index; ++before) own.manifest[kStates].push_back(Value());
  Strategy::save_optimizer(optimizer, index, own, /*all_ranks=*/true);
  const std::vector<std::string> descriptions =
      RankExchange(control_group())
          .gather_text(describe(own, index), {"gathering the state of a sharded optimizer", "all ranks save it"});
  Checkpoint all = own;
  for (int owner = 0; owner < world_size(); ++owner) {
    const bool is_own = owner == rank();
    const Value described = parse_json(descriptions[static_cast<std::size_t>(owner)]);
    for (const auto& [parameter, numbers] : described.at("state").as_map()) (*states_of(all, index))[parameter] = numbers;
    for (const auto& [name, layout] : described.at("tensors").as_map()) {
      const at::Tensor tensor = is_own ? own.tensors.at(name) : room_for(layout, device());
      const at::Tensor received = broadcast(tensor, owner);
      // Only rank 0 writes the file.
      all.tensors[name] = rank() != 0 ? at::Tensor() : is_own ? tensor : received;
    }
  }
  return all;
}

void ShardedDdpStrategy::save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint,
                                        bool all_ranks) {
  const auto at_end = states_at_end_.find(index);
  if (!all_ranks && world_size() > 1 && at_end == states_at_end_.end()) {
    throw MisuseError(
        "strategy ddp_sharded: the state of optimizers is divided over ranks, so rank 0 alone cannot save it after an error. "
        "Resume from the newest earlier checkpoint.");
  }
  DdpStrategy::save_optimizer(optimizer, index, checkpoint, all_ranks);
  if (world_size() == 1) return;
  Checkpoint all = all_ranks ? gathered(optimizer, index) : at_end->second;
  if (rank() != 0) return;
  for (const auto& [name, tensor] : all.tensors) checkpoint.tensors[name] = tensor;
  *states_of(checkpoint, index) = *states_of(all, index);
}

void ShardedDdpStrategy::keep_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index) {
  DdpStrategy::keep_optimizer(optimizer, index);
  if (world_size() > 1) states_at_end_[index] = gathered(optimizer, index);
}

void ShardedDdpStrategy::load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint) {
  if (world_size() == 1) return DdpStrategy::load_optimizer(optimizer, index, checkpoint);
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  divide(parameters);
  const auto is_of_another = [&](std::size_t parameter) {
    return parameter < parameters.size() && !is_own(parameters[parameter]);
  };
  Checkpoint share = checkpoint;
  std::erase_if(share.tensors,
                [&](const auto& entry) { return is_state(entry.first, index) && is_of_another(parameter_of(entry.first)); });
  if (Value* const states = states_of(share, index); states != nullptr && states->is_map()) {
    std::erase_if(states->as_map(), [&](const auto& entry) { return is_of_another(std::stoul(entry.first)); });
  }
  DdpStrategy::load_optimizer(optimizer, index, share);
}

}  // namespace levin
