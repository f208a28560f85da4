#include "levin/core/engine/step/step_graph.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/run_setup.h"
#include "levin/core/module.h"
#include "levin/core/random/rng_state.h"

namespace levin {

namespace {

/// Libraries choose algorithms and take their memory in the first steps.
constexpr std::int64_t kCallsBefore = 3;
/// One batch may not show what depends on the number of the step.
constexpr std::int64_t kComparisons = 3;
/// A gradient that is smaller than this part of all has to be right to that.
constexpr double kPartOfAll = 0.01;
constexpr int kMostUnlike = 10;

/// Of a norm: what other orders of summation make of it.
double tolerance_of(PrecisionFormat format) {
  return format == PrecisionFormat::kFloat64 ? 1e-9 : format == PrecisionFormat::kFloat32 ? 1e-4 : 2e-2;
}

double norm_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.norm().item<double>() : 0; }

/// `scale`: of what the two are parts of.
bool comes_to_same(const at::Tensor& one, const at::Tensor& other, double tolerance, double scale = 0) {
  if (one.defined() != other.defined()) return false;
  return !one.defined() || norm_of(one - other) <= tolerance * (norm_of(one) + scale);
}

bool drew_on_host(const RandomSnapshot& before, const RandomSnapshot& after, int rank) {
  const RandomStates was = before.states(rank);
  const RandomStates is = after.states(rank);
  if (was.size() != is.size()) return true;
  return !std::all_of(is.begin(), is.end(), [&](const auto& entry) {
    const auto found = was.find(entry.first);
    return entry.first == "device" || (found != was.end() && found->second.equal(entry.second));
  });
}

/// Weights that autocast has converted are converted anew in it, and after it.
class FreshAutocast {
 public:
  FreshAutocast() { at::autocast::clear_cache(); }
  ~FreshAutocast() { at::autocast::clear_cache(); }
  FreshAutocast(const FreshAutocast&) = delete;
  FreshAutocast& operator=(const FreshAutocast&) = delete;
};

/// The time in which a step logs elsewhere.
class RecordingScope {
 public:
  RecordingScope(RecordedLogs*& place, RecordedLogs* logs) : place_(place) { place_ = logs; }
  ~RecordingScope() { place_ = nullptr; }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  RecordedLogs*& place_;
};

}  // namespace

/// What a step may change beside its output, as it is now: buffers, such as running means, and random numbers. It shall look as
/// if the step had been called once.
struct StepGraph::StepState {
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

StepGraph::Subject StepGraph::Subject::of(Module& module) {
  Subject subject;
  std::unordered_set<const at::TensorImpl*> seen;
  for (at::Tensor& parameter : module.parameters()) {
    const bool is_trained = parameter.requires_grad();
    subject.identity.emplace_back(parameter.unsafeGetTensorImpl(), is_trained ? parameter.const_data_ptr() : nullptr);
    // One that has two names gets its gradient once.
    if (is_trained && seen.insert(parameter.unsafeGetTensorImpl()).second) subject.parameters.push_back(std::move(parameter));
  }
  for (const auto& part : module.modules(/*include_self=*/false)) {
    subject.identity.emplace_back(part.get(), part->is_training() ? part.get() : nullptr);
  }
  return subject;
}

void StepGraph::begin() {
  forget();
  replayed_ = 0;
  given_up_ = setup_.options.cuda_graph == CudaGraph::kNever || setup_.world_size() > 1 || setup_.options.detect_anomaly;
}

void StepGraph::end() {
  forget();
  given_up_ = true;
}

void StepGraph::forget() {
  calls_ = 0;
  compared_ = 0;
  unlike_ = 0;
  step_.reset();
  logs_.reset();
  subject_ = {};
}

void StepGraph::give_up(std::string_view why) {
  forget();
  given_up_ = true;
  rank_debug("cuda_graph: training steps are called, not replayed: ", why);
}

StepOutput StepGraph::run(Module& module, const Batch& batch, std::int64_t batch_idx) {
  if (given_up_) return module.training_step(batch, batch_idx);
  if (step_ && Subject::of(module).identity != subject_.identity) forget();
  if (!step_) return record_and_call(module, batch, batch_idx);
  if (!step_->fits(batch)) {
    // The last batch of an epoch may be smaller; where all differ, nothing is gained.
    if (++unlike_ > kMostUnlike) give_up("batches are of different sizes");
    return module.training_step(batch, batch_idx);
  }
  unlike_ = 0;
  if (compared_ < kComparisons) return replay_and_call(module, batch, batch_idx);
  StepOutput output = step_->forward(batch);
  logs_->log(module);
  ++replayed_;
  return output;
}

StepOutput StepGraph::record_and_call(Module& module, const Batch& batch, std::int64_t batch_idx) {
  if (++calls_ <= kCallsBefore) return module.training_step(batch, batch_idx);
  const StepState before(module);
  try {
    record(module, batch, batch_idx);
  } catch (const std::exception& error) {
    // One of the step's own comes again when it is called.
    give_up(error_text(error));
  }
  before.restore();
  return module.training_step(batch, batch_idx);
}

void StepGraph::record(Module& module, const Batch& batch, std::int64_t batch_idx) {
  const Strategy& strategy = *setup_.strategy;
  subject_ = Subject::of(module);
  logs_ = std::make_unique<RecordedLogs>(strategy.device());
  const auto training_step = [&](const Batch& inputs) {
    // Weights that autocast has converted for the step before would stay those of then.
    const FreshAutocast fresh_autocast;
    const RecordingScope scope(recording_, logs_.get());
    return module.training_step(inputs, batch_idx);
  };
  step_ = RecordedStep::record(strategy.accelerator(), strategy.device(), subject_.parameters, batch, training_step);
  if (!step_) give_up(strategy.accelerator().name() + " records nothing");
}

StepOutput StepGraph::replay_and_call(Module& module, const Batch& batch, std::int64_t batch_idx) {
  // Replayed first: what is called keeps buffers for its backward pass.
  const StepState before(module);
  const at::Tensor loss = step_->forward(batch).loss.detach();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& gradient : step_->backward(at::ones_like(loss))) {
    gradients.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
  }
  const StepState replayed(module);
  before.restore();
  StepOutput output = module.training_step(batch, batch_idx);
  const std::string difference = drew_on_host(before.random, RandomSnapshot::take(), setup_.strategy->rank())
                                     ? "a step drew random numbers on the CPU"
                                     : difference_of(output.loss, {loss, gradients}, replayed);
  if (difference.empty()) {
    ++compared_;
  } else {
    give_up(difference);
  }
  return output;
}

std::string StepGraph::difference_of(const at::Tensor& loss, const Replayed& replayed, const StepState& after) const {
  if (!loss.defined() || !loss.requires_grad()) return "a step gave no loss";
  const double tolerance = tolerance_of(setup_.options.precision);
  if (!comes_to_same(replayed.loss, loss.detach(), tolerance)) return "the loss is another one when replayed";
  const auto gradients = torch::autograd::grad({loss}, subject_.parameters, {}, /*retain_graph=*/true,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  // The gradient of a bias before a normalization, say, is nothing but what rounding leaves.
  double scale = 0;
  for (const at::Tensor& gradient : gradients) scale += kPartOfAll * norm_of(gradient);
  for (std::size_t index = 0; index < gradients.size(); ++index) {
    if (!comes_to_same(replayed.gradients[index], gradients[index], tolerance, scale)) {
      return "a gradient is another one when replayed";
    }
  }
  return after.holds_buffers_of_now(tolerance) ? "" : "a buffer is another one when replayed";
}

void RecordedLogs::add(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where) {
  if (value.device() != device_) refuse_number(name);
  calls_.push_back({std::string(name), value.detach(), options, where});
}

void RecordedLogs::refuse_number(std::string_view name) const {
  throw MisuseError(format("log(\"{}\") was given a number that is not on {}", name, c10::str(device_)));
}

void RecordedLogs::log(Module& module) const {
  // Of its own: the next step computes another value in the same place, and this one may not have been read by then.
  for (const Call& call : calls_) module.log(call.name, call.value.clone(), call.options, call.where);
}

namespace {

/// Backward passes are done outside of autocast.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(at::DeviceType device) : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~WithoutAutocast() { at::autocast::set_autocast_enabled(device_, was_enabled_); }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
};

/// A batch of the same kind, in memory of its own.
Batch copy_of(const Batch& batch) {
  std::vector<Batch::Item> items;
  for (const auto& [name, tensor] : batch.items()) items.emplace_back(name, tensor.detach().clone(at::MemoryFormat::Preserve));
  return Batch(std::move(items));
}

bool are_alike(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.strides() == other.strides() && one.scalar_type() == other.scalar_type() &&
         one.device() == other.device();
}

void check_output(const StepOutput& output, const at::Device& device) {
  const at::Tensor& loss = output.loss;
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) throw MisuseError("the step gave no loss to train with");
  for (const auto& [name, tensor] : output.extras.items()) {
    // It may be another one in each step.
    if (tensor.device() != device) throw MisuseError(format("the step gave '{}', which is not on {}", name, c10::str(device)));
  }
}

/// In the graph of the loss, in place of all that the step computed.
struct Replay : torch::autograd::Function<Replay> {
  /// What backward passes find again.
  struct Step : torch::CustomClassHolder {
    explicit Step(std::shared_ptr<RecordedStep> recorded) : recorded(std::move(recorded)) {}
    std::shared_ptr<RecordedStep> recorded;
  };

  static at::Tensor forward(torch::autograd::AutogradContext* context, const c10::intrusive_ptr<Step>& step,
                            const at::Tensor& loss, at::TensorList) {
    context->saved_data["step"] = c10::IValue::make_capsule(step);
    return loss.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto step = c10::static_intrusive_pointer_cast<Step>(context->saved_data["step"].toCapsule());
    torch::autograd::variable_list all(2);  // of the step and of what the loss was
    const auto& of_parameters = step->recorded->backward(gradients.at(0));
    all.insert(all.end(), of_parameters.begin(), of_parameters.end());
    return all;
  }
};

}  // namespace

RecordedStep::RecordedStep(std::vector<at::Tensor> parameters, const Batch& batch)
    : parameters_(std::move(parameters)), inputs_(copy_of(batch)) {}

std::shared_ptr<RecordedStep> RecordedStep::record(const Accelerator& accelerator, const at::Device& device,
                                                   std::vector<at::Tensor> parameters, const Batch& batch,
                                                   const TrainingStep& training_step) {
  std::shared_ptr<RecordedStep> step(new RecordedStep(std::move(parameters), batch));
  step->forward_ = accelerator.make_graph(device, nullptr);
  if (!step->forward_) return nullptr;
  StepOutput output;
  step->forward_->record([&] { output = training_step(step->inputs_); });
  check_output(output, device);
  step->loss_gradient_ = torch::ones_like(output.loss);
  step->backward_ = accelerator.make_graph(device, step->forward_.get());
  const WithoutAutocast without_autocast(device.type());
  step->backward_->record([&] {
    step->gradients_ = torch::autograd::grad({output.loss}, step->parameters_, {step->loss_gradient_},
                                             /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  });
  step->output_.loss = output.loss.detach();
  for (const auto& [name, tensor] : output.extras.items()) step->output_.extras.set(name, tensor.detach());
  return step;
}

bool RecordedStep::fits(const Batch& batch) const {
  if (batch.size() != inputs_.size()) return false;
  for (std::size_t index = 0; index < batch.size(); ++index) {
    const auto& [name, tensor] = batch.items()[index];
    if (name != inputs_.items()[index].first || !are_alike(tensor, inputs_.items()[index].second)) return false;
  }
  return true;
}

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
  output.loss = Replay::apply(c10::make_intrusive<Replay::Step>(shared_from_this()), output_.loss, at::TensorList(parameters_));
  return output;
}

const std::vector<at::Tensor>& RecordedStep::backward(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  loss_gradient_.copy_(gradient);
  backward_->replay();
  return gradients_;
}

}  // namespace levin
