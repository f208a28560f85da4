#include "levin/core/step/optimizer_graph.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/run_setup.h"
#include "levin/core/strategy.h"

namespace levin {

namespace {

constexpr int kMostRecordings = 10;
constexpr const char* kUnfit = "some weights are not of 32 bits, or not on the device";
/// The effect of rounding, as parts of a step's change and of a tensor.
constexpr double kOfChange = 1e-2;
constexpr double kOfTensor = 1e-6;

/// The result of `make`; unset if the device has no memory for it.
template <class Make>
auto unless_out_of_memory(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;
  }
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

void put(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& tensors) {
  for (std::size_t index = 0; index < tensors.size(); ++index) at::Tensor(tensors[index]).copy_(values[index]);
}

/// Whether `one` and `other` differ from `from` by the same change in each tensor. Waits for the device once.
bool changed_alike(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& one,
                   const std::vector<at::Tensor>& other) {
  std::vector<at::Tensor> alike;
  for (std::size_t index = 0; index < from.size(); ++index) {
    const at::Tensor bound = (one[index] - from[index]).norm() * kOfChange + one[index].norm() * kOfTensor;
    alike.push_back((one[index] - other[index]).norm() <= bound);
  }
  return alike.empty() || at::stack(alike).all().item<bool>();
}

}  // namespace

OptimizerGraph::OptimizerGraph(const RunSetup& setup) : setup_(setup) {}
OptimizerGraph::~OptimizerGraph() = default;

void OptimizerGraph::take(const std::shared_ptr<torch::optim::Optimizer>& optimizer) {
  if (optimizer_ == optimizer) return;
  release();
  optimizer_ = optimizer;
  auto* const recordable = dynamic_cast<RecordableOptimizer*>(optimizer_.get());
  if (recordable == nullptr || !recordable->run_steps_by(this)) {
    return give_up(format("{} has none that can be recorded", optimizer_class_name(*optimizer_)));
  }
  const auto fits = [&](const at::Tensor& parameter) {
    return parameter.scalar_type() == at::kFloat && parameter.device() == setup_.strategy->device();
  };
  if (!std::ranges::all_of(all_parameters(*optimizer_), fits)) give_up(kUnfit);
}

void OptimizerGraph::release() {
  if (auto* const recordable = dynamic_cast<RecordableOptimizer*>(optimizer_.get())) recordable->run_steps_by(nullptr);
  optimizer_.reset();
  given_up_ = false;
  forget();
}

void OptimizerGraph::forget() {
  graph_.reset();
  recorded_.reset();
  last_.reset();
  recordings_ = 0;
  elsewhere_ = 0;
}

void OptimizerGraph::give_up(std::string_view why) {
  forget();
  given_up_ = true;
  rank_zero_info("cuda_graph: the optimizer's step is called, not replayed: ", why);
}

void OptimizerGraph::run(RecordableStep& step) {
  if (given_up_) return step.call();
  std::optional<RecordableStep::Fixed> now = step.fixed();
  if (!now) {
    give_up(kUnfit);
    return step.call();
  }
  if (!graph_ || now != recorded_) {
    // The first steps allocate state, and a batch of another size has its gradients at other addresses.
    const bool repeats = now == last_;
    last_ = now;
    if (!repeats && ++elsewhere_ <= kMostUnlike) return step.call();
    if (!repeats || ++recordings_ > kMostRecordings)
      give_up("gradients have another address, or an option another value, in each step");
    if (given_up_ || !record(step)) return step.call();
    recorded_ = std::move(now);
  }
  elsewhere_ = 0;
  if (compared_ < kComparisons) return replay_and_compare(step);
  step.send_numbers();
  graph_->replay();
}

bool OptimizerGraph::record(RecordableStep& step) {
  const Strategy& strategy = *setup_.strategy;
  compared_ = 0;
  try {
    graph_ = strategy.accelerator().make_graph(strategy.device(), nullptr);
    if (!graph_) throw MisuseError(strategy.accelerator().name() + " records nothing");
    step.send_numbers();
    graph_->record([&] { step.call_with_sent_numbers(); });
  } catch (const std::exception& error) {
    give_up(split(error_text(error), "\n").front());
  }
  return graph_ != nullptr;
}

void OptimizerGraph::replay_and_compare(RecordableStep& step) {
  const std::vector<at::Tensor> changed = step.changed();
  const auto copies = [&] { return copies_of(changed); };
  const auto before = unless_out_of_memory(copies);
  step.call();
  const auto called = before ? unless_out_of_memory(copies) : std::nullopt;
  if (!called) return give_up("there is no memory to compare the two");
  put(*before, changed);
  step.send_numbers();
  graph_->replay();
  const auto alike = unless_out_of_memory([&] { return changed_alike(*before, *called, changed); });
  if (alike == true) {
    ++compared_;
    return;
  }
  put(*called, changed);
  give_up(alike ? "its result differs when replayed" : "there is no memory to compare the two");
}

}  // namespace levin
