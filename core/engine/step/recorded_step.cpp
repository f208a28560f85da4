#include "levin/core/engine/step/recorded_step.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

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
