#include "levin/core/step/step_graph.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <unordered_set>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/run/run_setup.h"

namespace levin {

namespace {

/// Libraries choose algorithms and allocate memory in the first steps.
constexpr std::int64_t kCallsBefore = 3;
/// The error of a gradient below this part of all is measured against that part.
constexpr double kPartOfAll = 0.01;

/// The relative error of a norm from another order of summation.
double tolerance_of(PrecisionFormat format) {
  return format == PrecisionFormat::kFloat64 ? 1e-9 : format == PrecisionFormat::kFloat32 ? 1e-4 : 2e-2;
}

double norm_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.norm().item<double>() : 0; }

/// `scale`: norm of the whole that both are parts of.
bool comes_to_same(const at::Tensor& one, const at::Tensor& other, double tolerance, double scale = 0) {
  if (one.defined() != other.defined()) return false;
  return !one.defined() || norm_of(one - other) <= tolerance * (norm_of(one) + scale);
}

bool drew_on_host(const RandomSnapshot& before, const RandomSnapshot& after, int rank) {
  RandomStates was = before.states(rank);
  RandomStates is = after.states(rank);
  was.erase("device");
  is.erase("device");
  return !std::ranges::equal(
      was, is, [](const auto& one, const auto& other) { return one.first == other.first && one.second.equal(other.second); });
}

/// The current state that a step may change in addition to its output: buffers, such as running means, and random numbers. It
/// must look as if the step had been called once.
struct StepState {
  explicit StepState(const Module& module) : buffers(module.buffers()), random(RandomSnapshot::take()) {
    for (const at::Tensor& buffer : buffers) values.push_back(buffer.detach().clone());
  }
  void restore() const {
    const at::NoGradGuard no_grad;
    for (std::size_t index = 0; index < buffers.size(); ++index) at::Tensor(buffers[index]).copy_(values[index]);
    random.restore();
  }
  bool holds_buffers_of_now(double tolerance) const {
    for (std::size_t index = 0; index < buffers.size(); ++index) {
      if (!comes_to_same(buffers[index].to(at::kDouble), values[index].to(at::kDouble), tolerance)) return false;
    }
    return true;
  }

  std::vector<at::Tensor> buffers;
  std::vector<at::Tensor> values;
  RandomSnapshot random;
};

/// The conditions of a recorded step: the address of each parameter and whether it is trained, and the mode of each submodule.
std::vector<std::pair<const void*, const void*>> identity_of(Module& module) {
  std::vector<std::pair<const void*, const void*>> identity;
  for (const at::Tensor& parameter : module.parameters()) {
    identity.emplace_back(parameter.unsafeGetTensorImpl(), parameter.requires_grad() ? parameter.const_data_ptr() : nullptr);
  }
  for (const auto& part : module.modules(/*include_self=*/false)) {
    identity.emplace_back(part.get(), part->is_training() ? part.get() : nullptr);
  }
  return identity;
}

/// Each trained parameter once, even if it has two names.
std::vector<at::Tensor> trained_parameters(const Module& module) {
  std::vector<at::Tensor> trained;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second) trained.push_back(parameter);
  }
  return trained;
}

/// By parameter; undefined if the loss does not depend on it.
std::vector<at::Tensor> gradients_of(const at::Tensor& loss, const std::vector<at::Tensor>& parameters,
                                     const std::vector<at::Tensor>& loss_gradient, bool retain_graph) {
  return torch::autograd::grad({loss}, parameters, loss_gradient, retain_graph, /*create_graph=*/false, /*allow_unused=*/true);
}

/// Whether a parameter can hold this gradient without a copy. Autograd copies others.
bool is_handed_out(const at::Tensor& gradient) { return gradient.defined() && gradient.layout() == at::kStrided; }

bool is_shared(const at::Tensor& tensor) { return tensor.storage().use_count() > 1; }

/// Swaps the memory of two tensors, for all that share it.
void exchange_memory(const at::Tensor& one, const at::Tensor& other) {
  c10::StorageImpl& first = *one.storage().unsafeGetStorageImpl();
  c10::StorageImpl& second = *other.storage().unsafeGetStorageImpl();
  second.set_data_ptr_noswap(first.set_data_ptr(std::move(second.mutable_data_ptr())));
}

bool are_alike(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.strides() == other.strides() && one.scalar_type() == other.scalar_type() &&
         one.device() == other.device();
}

void check_output(const StepOutput& output, const at::Device& device) {
  const at::Tensor& loss = output.loss;
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) throw MisuseError("the step gave no loss to train with");
  for (const auto& [name, tensor] : output.extras.items()) {
    // Its value may differ in each step.
    if (tensor.device() != device) throw MisuseError(format("the step gave '{}', which is not on {}", name, c10::str(device)));
  }
}

}  // namespace

void RecordedLogs::add(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where) {
  if (value.device() != device_) refuse_number(name);
  calls_.push_back({std::string(name), value.detach(), options, where});
}

void RecordedLogs::refuse_number(std::string_view name) const {
  throw MisuseError(format("log(\"{}\") was given a number that is not on {}", name, c10::str(device_)));
}

void RecordedLogs::log(Module& module) const {
  // A copy: the next step computes another value at the same address, perhaps before this one is read.
  for (const Call& call : calls_) module.log(call.name, call.value.clone(), call.options, call.where);
}

/// A training step that a device has recorded: its forward and its backward pass, each a graph. Both read and write the
/// addresses of the recording, so inputs are copied there, and outputs are copied away.
class RecordedStep : public torch::CustomClassHolder {
 public:
  using TrainingStep = std::function<StepOutput(const Batch&, RecordedLogs&)>;

  /// Records `training_step` on a batch like this one, with its backward pass, without computing it. Throws what the step
  /// throws, c10::Error for what cannot be recorded, and MisuseError.
  RecordedStep(const Accelerator& accelerator, const at::Device& device, Module& module, const Batch& batch,
               const TrainingStep& training_step)
      : logs(device), parameters_(trained_parameters(module)), identity_(identity_of(module)) {
    std::vector<Batch::Item> inputs;
    for (const auto& [name, tensor] : batch.items()) {
      inputs.emplace_back(name, tensor.detach().clone(at::MemoryFormat::Preserve));
    }
    inputs_ = Batch(std::move(inputs));
    forward_ = accelerator.make_graph(device, nullptr);
    if (!forward_) throw MisuseError(accelerator.name() + " records nothing");
    StepOutput output;
    forward_->record([&] { output = training_step(inputs_, logs); });
    check_output(output, device);
    loss_gradient_ = torch::ones_like(output.loss);
    for (const at::Tensor& parameter : parameters_) gradients_.push_back(torch::empty_like(parameter.detach()));
    backward_ = accelerator.make_graph(device, forward_.get());
    // Backward passes run outside of autocast.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(
        at::autocast::get_autocast_dispatch_key_from_device_type(device.type()));
    backward_->record([&] { place(gradients_of(output.loss, parameters_, {loss_gradient_}, /*retain_graph=*/false)); });
    output_.loss = output.loss.detach();
    for (const auto& [name, tensor] : output.extras.items()) output_.extras.set(name, tensor.detach());
  }

  bool holds_for(Module& module) const { return identity_ == identity_of(module); }
  /// Whether this batch could replace the recorded one.
  bool fits(const Batch& batch) const {
    return std::equal(batch.items().begin(), batch.items().end(), inputs_.items().begin(), inputs_.items().end(),
                      [](const auto& own, const auto& recorded) {
                        return own.first == recorded.first && are_alike(own.second, recorded.second);
                      });
  }
  /// Runs the forward pass on this batch. The backward pass of its loss gives parameters the same gradients as the step itself.
  StepOutput forward(const Batch& batch);
  /// The gradients of the last forward pass, in the same memory each time; `gradient`: that of the loss.
  const std::vector<at::Tensor>& backward(const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    preserve_used_gradients();
    loss_gradient_.copy_(gradient);
    backward_->replay();
    return gradients_;
  }
  /// Why the replayed step, with its buffers in `after`, differs from `loss` and the buffers now; empty if it does not.
  std::string difference(const at::Tensor& loss, const at::Tensor& replayed_loss, const std::vector<at::Tensor>& replayed,
                         const StepState& after, double tolerance) const {
    if (!loss.defined() || !loss.requires_grad()) return "a step gave no loss";
    if (!comes_to_same(replayed_loss, loss.detach(), tolerance)) return "the loss differs when replayed";
    const std::vector<at::Tensor> gradients = gradients_of(loss, parameters_, {}, /*retain_graph=*/true);
    // The gradient of a bias before a normalization, for example, is only rounding error.
    double scale = 0;
    for (const at::Tensor& gradient : gradients) scale += kPartOfAll * norm_of(gradient);
    for (std::size_t index = 0; index < gradients.size(); ++index) {
      if (!comes_to_same(replayed[index], gradients[index], tolerance, scale)) return "a gradient differs when replayed";
    }
    return after.holds_buffers_of_now(tolerance) ? "" : "a buffer differs when replayed";
  }

  RecordedLogs logs;

 private:
  /// Called: while recording. Copies gradients from the graph's memory, which the next forward pass uses, to gradients_.
  void place(const std::vector<at::Tensor>& computed) {
    const at::NoGradGuard no_grad;
    for (std::size_t index = 0; index < computed.size(); ++index) {
      if (is_handed_out(computed[index])) {
        gradients_[index].copy_(computed[index]);
      } else {
        gradients_[index] = computed[index];
      }
    }
  }
  /// Preserves gradients of the call before that are still in use, as by a parameter while batches accumulate: moves them to
  /// other memory, the same each time unless that is in use, too. The next ones are computed where they were.
  void preserve_used_gradients() {
    std::vector<std::size_t> used;
    std::vector<at::Tensor> from, to;
    kept_.resize(gradients_.size());
    for (std::size_t index = 0; index < gradients_.size(); ++index) {
      const at::Tensor& gradient = gradients_[index];
      if (!is_handed_out(gradient) || !is_shared(gradient)) continue;
      if (!kept_[index].defined() || is_shared(kept_[index])) kept_[index] = torch::empty_like(gradient);
      used.push_back(index);
      from.push_back(gradient);
      to.push_back(kept_[index]);
    }
    if (used.empty()) return;
    at::_foreach_copy_(to, from);
    for (const std::size_t index : used) {
      exchange_memory(gradients_[index], kept_[index]);
      std::swap(gradients_[index], kept_[index]);
    }
  }

  std::vector<at::Tensor> parameters_;
  std::vector<std::pair<const void*, const void*>> identity_;
  Batch inputs_;
  StepOutput output_;
  at::Tensor loss_gradient_;
  std::vector<at::Tensor> gradients_;
  std::vector<at::Tensor> kept_;  ///< by parameter, of the call before
  // Last, so that graphs are destroyed before the memory that they use.
  std::unique_ptr<DeviceGraph> forward_;
  std::unique_ptr<DeviceGraph> backward_;
};

namespace {

/// Stands in the graph of the loss for all that the step computed.
struct Replay : torch::autograd::Function<Replay> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const c10::intrusive_ptr<RecordedStep>& step,
                            const at::Tensor& loss, at::TensorList) {
    context->saved_data["step"] = c10::IValue::make_capsule(step);
    return loss.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto step = c10::static_intrusive_pointer_cast<RecordedStep>(context->saved_data["step"].toCapsule());
    torch::autograd::variable_list all(2);  // undefined for the arguments `step` and `loss`
    // A tensor that is not shared becomes the parameter's gradient without a copy.
    for (const at::Tensor& gradient : step->backward(gradients.at(0))) {
      all.push_back(is_handed_out(gradient) ? gradient.detach() : gradient);
    }
    return all;
  }
};

}  // namespace

StepOutput RecordedStep::forward(const Batch& batch) {
  {
    const at::NoGradGuard no_grad;
    for (std::size_t index = 0; index < batch.size(); ++index) {
      at::Tensor place = inputs_.items()[index].second;
      place.copy_(batch[index], /*non_blocking=*/true);
    }
  }
  forward_->replay();
  StepOutput output;
  for (const auto& [name, tensor] : output_.extras.items()) output.extras.set(name, tensor.clone());
  output.loss = Replay::apply(c10::intrusive_ptr<RecordedStep>::reclaim_copy(this), output_.loss, at::TensorList(parameters_));
  return output;
}

StepGraph::StepGraph(const RunSetup& setup) : setup_(setup), optimizer_(setup) {}
StepGraph::~StepGraph() = default;

void StepGraph::begin() {
  forget();
  given_up_ = setup_.options.cuda_graph == CudaGraph::kNever;
  if (given_up_) return;
  if (setup_.world_size() > 1) return give_up("there are several ranks");
  if (setup_.options.detect_anomaly) give_up("detect_anomaly checks each operation");
}

void StepGraph::end() {
  forget();
  optimizer_.release();
  given_up_ = true;
}

void StepGraph::forget() {
  calls_ = 0;
  compared_ = 0;
  unlike_ = 0;
  step_.reset();
}

void StepGraph::give_up(std::string_view why) {
  end();
  rank_zero_info("cuda_graph: training steps are called, not replayed: ", why);
}

StepOutput StepGraph::run(Module& module, const Batch& batch, std::int64_t batch_idx) {
  if (given_up_) return module.training_step(batch, batch_idx);
  if (step_ && !step_->holds_for(module)) forget();
  if (!step_) return record_and_call(module, batch, batch_idx);
  if (!step_->fits(batch)) {
    // The last batch of an epoch may be smaller; if all differ, nothing is gained.
    if (++unlike_ > kMostUnlike) give_up("batches are of different sizes");
    return module.training_step(batch, batch_idx);
  }
  unlike_ = 0;
  if (compared_ < kComparisons) return replay_and_call(module, batch, batch_idx);
  StepOutput output = step_->forward(batch);
  step_->logs.log(module);
  return output;
}

StepOutput StepGraph::record_and_call(Module& module, const Batch& batch, std::int64_t batch_idx) {
  if (++calls_ <= kCallsBefore) return module.training_step(batch, batch_idx);
  const StepState before(module);
  const auto training_step = [&](const Batch& inputs, RecordedLogs& logs) {
    // Weights that autocast converted for the step before would be outdated in the graph, and those converted here stay in it.
    at::autocast::clear_cache();
    recording_ = &logs;
    const auto recorded = c10::make_scope_exit([&] {
      recording_ = nullptr;
      at::autocast::clear_cache();
    });
    return module.training_step(inputs, batch_idx);
  };
  try {
    const Strategy& strategy = *setup_.strategy;
    step_ = c10::make_intrusive<RecordedStep>(strategy.accelerator(), strategy.device(), module, batch, training_step);
  } catch (const std::exception& error) {
    // An error of the step itself is thrown again when it is called. CUDA adds four lines of advice.
    give_up(split(error_text(error), "\n").front());
  }
  before.restore();
  return module.training_step(batch, batch_idx);
}

StepOutput StepGraph::replay_and_call(Module& module, const Batch& batch, std::int64_t batch_idx) {
  // Replayed first: the called step saves buffers for its backward pass.
  const StepState before(module);
  const at::Tensor loss = step_->forward(batch).loss.detach();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& gradient : step_->backward(at::ones_like(loss))) {
    gradients.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
  }
  const StepState replayed(module);
  before.restore();
  StepOutput output = module.training_step(batch, batch_idx);
  const std::string difference =
      drew_on_host(before.random, RandomSnapshot::take(), setup_.strategy->rank())
          ? "a step drew random numbers on the CPU"
          : step_->difference(output.loss, loss, gradients, replayed, tolerance_of(setup_.options.precision));
  if (difference.empty()) {
    ++compared_;
  } else {
    give_up(difference);
  }
  return output;
}

}  // namespace levin
