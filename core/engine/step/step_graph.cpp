#include "levin/core/engine/step/step_graph.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

#include "levin/core/accelerator.h"
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

}  // namespace levin
