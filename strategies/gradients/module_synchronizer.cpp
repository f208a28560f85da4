#include "levin/strategies/gradients/module_synchronizer.h"

#include <torch/types.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/strategies/transport/gloo.h"

namespace levin {

namespace {

/// Tensors travel in messages of up to this size when they are made equal to rank 0's.
constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;

/// As the table of a stalled run calls it.
constexpr const char* kReduction = "the gradient reduction";

std::vector<at::Tensor> parameters_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> parameters;
  for (auto& [name, parameter] : distinct_parameters(module)) parameters.push_back(std::move(parameter));
  return parameters;
}

std::vector<at::Tensor> tensors_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors = parameters_of(module);
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer);
  return tensors;
}

/// buffers() of a module and those below it, without a name for each of the layers.
void append_buffers(const torch::nn::Module& module, std::vector<at::Tensor>& buffers) {
  for (const at::Tensor& buffer : module.buffers(/*recurse=*/false)) buffers.push_back(buffer);
  for (const auto& child : module.children()) append_buffers(*child, buffers);
}

using Remark = std::function<std::string(const at::Tensor&)>;

std::string line_of(const char* kind, const std::string& name, const at::Tensor& tensor, const Remark& remark) {
  if (!tensor.defined()) return c10::str(kind, " ", name, " undefined\n");
  return c10::str(kind, " ", name, " ", tensor.sizes(), " ", tensor.scalar_type(), tensor.requires_grad() ? "" : " not trained",
                  remark(tensor), "\n");
}

std::string describe(const torch::nn::Module& module, const Remark& remark) {
  std::string text;
  for (const auto& entry : module.named_parameters()) text += line_of("parameter", entry.key(), entry.value(), remark);
  for (const auto& entry : module.named_buffers()) text += line_of("buffer", entry.key(), entry.value(), remark);
  return text;
}

/// Compares the names, shapes, types and trainability of parameters and buffers over ranks, and what is remarked of each,
/// before anything of them is exchanged. Ranks: all. Throws DesyncError on every rank, naming the first that differs from rank
/// 0's.
void check_alike(const torch::nn::Module& module, ControlGroup& group, const Remark& remark, const ExchangeSite& site,
                 const std::string& error) {
  if (const auto difference = RankExchange(group).first_difference(describe(module, remark), site)) {
    throw DesyncError(error + difference->str());
  }
}

/// What any rank has marked, by tensor. Ranks: all.
std::vector<std::byte> marks_of_all(ControlGroup& group, std::vector<std::byte> mine, const ExchangeSite& site) {
  const std::vector<std::byte> all = RankExchange(group).gather_bytes(mine, site);
  for (std::size_t index = 0; index < all.size(); ++index) mine[index % mine.size()] |= all[index];
  return mine;
}

}  // namespace

ModuleSynchronizer::ModuleSynchronizer(ProcessWorld& world, torch::nn::Module& module, bool training, const DdpOptions& options,
                                       PowerSgd* power_sgd)
    : world_(world),
      module_(module),
      options_(options),
      context_{.learns_unused = options.static_graph,
               .shared_memory = world.shared_gradients(),
               .votes = world.bucket_votes(),
               .power_sgd = power_sgd},
      known_(tensors_of(module)) {
  check_alike(
      module, world.control_group(), [](const at::Tensor&) { return ""; },
      {"the comparison of parameters", "all give their module to the strategy when it is set up"},
      "the module differs between ranks; all must build the same one. ");
  broadcast(known_);
  context_.on_wait = [this](bool waits) {
    world_.board().post_waiting(waits ? kReduction : nullptr);
    if (waits && wait_observer_ && !arrived_) arrived_ = steady_seconds();
  };
  if (training) make_reducer();
}

void ModuleSynchronizer::make_reducer(const std::vector<at::Tensor>& not_agreed) {
  reducer_.reset();
  non_bucketed_ = non_bucketed_parameters(module_);
  context_.left_out = left_out_;
  context_.left_out.insert(context_.left_out.end(), non_bucketed_.begin(), non_bucketed_.end());
  context_.left_out.insert(context_.left_out.end(), not_agreed.begin(), not_agreed.end());
  const std::vector<at::Tensor> parameters = parameters_of(module_);
  frozen_.clear();
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(frozen_),
               [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
  const auto is_reduced = [&](const at::Tensor& parameter) {
    return parameter.requires_grad() && !is_one_of(parameter, context_.left_out);
  };
  if (std::none_of(parameters.begin(), parameters.end(), is_reduced)) return;
  world_.board().begin_reduction();
  reducer_ = std::make_unique<GradientReducer>(module_, world_.process_group(), options_, context_);
  world_.board().end_reduction();
}

void ModuleSynchronizer::parameters_changed(bool after_reduction) {
  std::vector<at::Tensor> reduced = reducer_ ? reducer_->parameters() : std::vector<at::Tensor>();
  reduced.insert(reduced.end(), non_bucketed_.begin(), non_bucketed_.end());
  const auto lacks_value = [&](const at::Tensor& tensor) { return !is_one_of(tensor, known_); };
  const auto lacks_reduction = [&](const at::Tensor& tensor) { return tensor.requires_grad() && !is_one_of(tensor, reduced); };
  const auto remark = [&](const at::Tensor& tensor) {
    return lacks_value(tensor) ? " new" : lacks_reduction(tensor) ? " unfrozen" : "";
  };
  check_alike(module_, world_.control_group(), remark,
              {"the comparison of changed parameters", "the votes of all ranks say that some have changed"},
              "the module's parameters have changed differently on ranks; all must freeze, unfreeze, add and replace the same, "
              "in the same hook of the same batch. ");
  std::vector<at::Tensor> tensors = tensors_of(module_);
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> late;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(values), lacks_value);
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(late), lacks_reduction);
  broadcast(values);
  if (after_reduction) {
    levin::reduce_non_bucketed(world_, late, {"new gradients", "all have compared the same changes of parameters"});
    drop_zeros();
  }
  known_ = std::move(tensors);
  left_out_.clear();
  context_.learns_unused = options_.static_graph;
  make_reducer_beside_gradients();
}

void ModuleSynchronizer::make_reducer_beside_gradients(const std::vector<at::Tensor>& not_agreed) {
  // A new reducer begins with a pass over zeros.
  std::vector<at::Tensor> parameters = parameters_of(module_);
  std::vector<at::Tensor> gradients;
  for (at::Tensor& parameter : parameters) gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  make_reducer(not_agreed);
  for (std::size_t index = 0; index < parameters.size(); ++index) parameters[index].mutable_grad() = gradients[index];
}

void ModuleSynchronizer::drop_zeros() {
  std::vector<at::Tensor> let_go;
  std::vector<std::byte> had_gradient;
  for (const at::Tensor& parameter : reducer_ ? reducer_->parameters() : std::vector<at::Tensor>()) {
    if (parameter.requires_grad()) continue;
    let_go.push_back(parameter);
    had_gradient.push_back(std::byte{parameter.grad().defined() && !is_one_of(parameter, reducer_->given_zeros())});
  }
  if (let_go.empty()) return;
  had_gradient = marks_of_all(world_.control_group(), had_gradient,
                              {"gradients of frozen parameters", "all have compared the same changes of parameters"});
  for (std::size_t index = 0; index < let_go.size(); ++index) {
    if (had_gradient[index] == std::byte{}) let_go[index].mutable_grad().reset();
  }
}

void ModuleSynchronizer::broadcast(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  std::vector<at::Tensor> values;
  for (const at::Tensor& tensor : tensors) values.push_back(as_real(tensor.detach()));
  world_.board().begin_reduction();
  c10d::broadcast_coalesced(world_.process_group(), values, kBroadcastBytes);
  world_.board().end_reduction();
}

void ModuleSynchronizer::begin_observation() {
  arrived_.reset();
  if (wait_observer_ && world_.shared_gradients() != nullptr) world_.shared_gradients()->observe(wait_observer_);
}

void ModuleSynchronizer::end_observation() {
  if (!wait_observer_) return;
  if (world_.shared_gradients() != nullptr) return world_.shared_gradients()->observe(nullptr);
  const double left = steady_seconds();
  wait_observer_(arrived_.value_or(left), left);
}

void ModuleSynchronizer::before_backward(const at::Tensor& loss) {
  // Votes are read after a reduction, so ranks must meet even when there is nothing to reduce.
  if (!reducer_ && world_.bucket_votes() != nullptr) return world_.bucket_votes()->exchange(world_.control_group());
  if (!reducer_) return world_.control_group().all_gather({}, {}, "a step without gradients");
  begin_observation();
  world_.board().begin_reduction();
  reducer_->prepare(loss);
  // This rank still computes: one that stays in its backward pass must not look like those that wait for it.
  if (reducer_->reports_last_gradient()) world_.board().post_waiting(nullptr);
}

void ModuleSynchronizer::finish_reduction() {
  if (took_synchronized_forward() && options_.find_unused_parameters) {
    // A rank whose loss leaves a layer out would wait in the reduction for those that wait for it in that layer.
    world_.control_group().all_gather({}, {}, "the end of a backward pass through synchronized BatchNorm layers");
  }
  if (reducer_) reducer_->finish(module_);
  reduce_non_bucketed();
  if (!reducer_) return;
  end_observation();
  if (context_.learns_unused) return learn_unused(/*has_batch=*/true);
  if (left_out_.empty()) return;
  for (const auto& entry : module_.named_parameters()) {
    if (!entry.value().grad().defined() || !is_one_of(entry.value(), left_out_)) continue;
    throw MisuseError("strategy ddp: with static_graph each step must use the parameters of the first, but " + entry.key() +
                      " has a gradient, and had none in the first. Set find_unused_parameters instead.");
  }
}

void ModuleSynchronizer::reduce_non_bucketed() {
  if (!non_bucketed_.empty()) {
    levin::reduce_non_bucketed(world_, non_bucketed_,
                               {"sparse and complex gradients", "all reduce the gradients of the same backward passes"});
  }
  // Frozen among batches that were not reduced, they step with the gradients of those. What a hook has unfrozen since waits for
  // parameters_changed(), which averages it: twice would round twice.
  std::vector<at::Tensor> frozen = std::exchange(frozen_, {});
  std::erase_if(frozen, [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  levin::reduce_non_bucketed(world_, frozen, {"gradients of frozen parameters", "all have set up their first reduction alike"});
}

void ModuleSynchronizer::learn_unused(bool has_batch) {
  constexpr std::byte kNotKnown{0};
  constexpr std::byte kUsed{1};
  constexpr std::byte kUnused{2};
  const std::vector<at::Tensor>& parameters = reducer_->parameters();
  std::vector<std::byte> marks;
  for (const at::Tensor& parameter : parameters) {
    marks.push_back(!has_batch ? kNotKnown : is_one_of(parameter, reducer_->given_zeros()) ? kUnused : kUsed);
  }
  marks = marks_of_all(world_.control_group(), marks,
                       {"learning a static graph", "all have reduced the gradients of its first step"});
  std::vector<at::Tensor> left_out;
  bool is_known = false;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    is_known |= marks[index] != kNotKnown;
    if (marks[index] == (kUsed | kUnused)) {
      throw DesyncError("strategy ddp: with static_graph all ranks must use the same parameters, but " + reducer_->name(index) +
                        " was used on only some ranks. Set find_unused_parameters instead.");
    }
    if (marks[index] == kUnused) left_out.push_back(parameters[index]);
  }
  if (!is_known) return;  // no rank has had a batch
  context_.learns_unused = false;
  left_out_ = std::move(left_out);
  for (at::Tensor& parameter : left_out_) parameter.mutable_grad().reset();
  // What a hook of this step has unfrozen has a gradient that is still this rank's own: it is averaged when ranks agree.
  std::vector<at::Tensor> not_agreed;
  const std::vector<at::Tensor> own = parameters_of(module_);
  std::copy_if(own.begin(), own.end(), std::back_inserter(not_agreed), [&](const at::Tensor& parameter) {
    return !is_one_of(parameter, parameters) && !is_one_of(parameter, non_bucketed_);
  });
  make_reducer_beside_gradients(not_agreed);
}

void ModuleSynchronizer::backward_without_batch() {
  if (has_synchronized_layers(module_)) {
    throw MisuseError(
        "this rank has no batch, but others have one, and their BatchNorm layers need the statistics of all ranks. Give all "
        "ranks the same number of batches: set trainer.uneven to drop, or to pad where the data are no stream.");
  }
  reduce_after_backward();
}

void ModuleSynchronizer::reduce_after_backward() {
  if (!reducer_) {
    before_backward({});
    return reduce_non_bucketed();
  }
  begin_observation();
  world_.board().begin_reduction();
  reducer_->reduce_zeros();
  world_.board().end_reduction();
  reduce_non_bucketed();
  end_observation();
  if (context_.learns_unused) learn_unused(/*has_batch=*/false);
}

void ModuleSynchronizer::synchronize_buffers() {
  std::vector<at::Tensor> buffers;
  append_buffers(module_, buffers);
  broadcast(buffers);
}

}  // namespace levin
