#include "levin/exported/exported_module.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <map>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/options/registry.h"
#include "levin/core/trainer.h"
#include "levin/exported/compiled_entry.h"
#include "levin/exported/compiled_gradients.h"

namespace levin {

LEVIN_REGISTER_MODULE(ExportedModule, "The steps of a Python module, compiled by levin.export()");

using Input = PackageEntry::Input;
using Output = PackageEntry::Output;

void ExportedModuleOptions::declare(OptionList<ExportedModuleOptions>& options) {
  options.add("package", &ExportedModuleOptions::package, "The file of Python's levin.export()").required();
}

/// An entry with what it reads and writes of the module, so that a step looks nothing up.
struct ExportedModule::Step {
  explicit Step(const PackageFile& package, const PackageEntry& entry) : compiled(package, entry) {}

  CompiledEntry compiled;
  std::vector<at::Tensor> weights;                          ///< inputs that are parameters or buffers, in their order
  std::vector<std::pair<at::Tensor, std::size_t>> buffers;  ///< what the step changes, and the output with the new value
  std::vector<at::Tensor> trained;                          ///< parameters with a gradient, in the order of outputs
  std::size_t first_gradient = 0;
};

ExportedModule::ExportedModule(const Options& options)
    : package_(PackageFile::open(checked("ExportedModule", options).package)) {
  register_weights();
  std::map<std::string_view, at::Tensor> tensors;
  for (const PackageFile::Weight& weight : package_.weights) tensors[weight.name] = weight.tensor;
  for (const PackageEntry& entry : package_.entries) {
    auto step = std::make_unique<Step>(package_, entry);
    for (const Input& input : entry.inputs) {
      if (input.kind == Input::Kind::kParameter || input.kind == Input::Kind::kBuffer)
        step->weights.push_back(tensors.at(input.name));
    }
    for (std::size_t index = 0; index < entry.outputs.size(); ++index) {
      const Output& output = entry.outputs[index];
      if (output.kind == Output::Kind::kBuffer) step->buffers.emplace_back(tensors.at(output.name), index);
      if (output.kind != Output::Kind::kGradient) continue;
      if (step->trained.empty()) step->first_gradient = index;
      step->trained.push_back(tensors.at(output.name));
    }
    steps_.push_back(std::move(step));
  }
}

ExportedModule::~ExportedModule() = default;

namespace {

/// The module that a dotted name lies in, made where it is missing, and the last part of the name.
std::pair<torch::nn::Module*, std::string> place_of(torch::nn::Module& root, std::string_view name) {
  torch::nn::Module* place = &root;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    const std::string part(name.substr(0, dot));
    const auto children = place->named_children();
    if (const auto* child = children.find(part)) {
      place = child->get();
    } else {
      place = place->register_module(part, std::make_shared<torch::nn::Module>()).get();
    }
    name.remove_prefix(dot + 1);
  }
  return {place, std::string(name)};
}

}  // namespace

void ExportedModule::register_weights() {
  for (PackageFile::Weight& weight : package_.weights) {
    std::vector<std::string> names = weight.aliases;
    names.insert(names.begin(), weight.name);
    for (const std::string& name : names) {
      const auto [place, last] = place_of(*this, name);
      if (weight.is_parameter) {
        place->register_parameter(last, weight.tensor, weight.is_trained);
      } else {
        place->register_buffer(last, weight.tensor);
      }
    }
  }
}

const ExportedModule::Step* ExportedModule::step(std::string_view name) const {
  const auto found = std::ranges::find_if(steps_, [&](const auto& step) { return step->compiled.entry().name == name; });
  return found == steps_.end() ? nullptr : found->get();
}

at::Tensor ExportedModule::number(std::string_view name, std::int64_t batch_idx) const {
  std::int64_t value = batch_idx;
  if (name == "dataloader_idx") value = dataloader_idx();
  if (name == "global_step") value = trainer().global_step();
  if (name == "current_epoch") value = trainer().current_epoch();
  return at::scalar_tensor(value, at::kLong);
}

std::vector<at::Tensor> ExportedModule::run(const Step& step, const Batch& batch, std::int64_t batch_idx) {
  std::vector<at::Tensor> inputs = step.compiled.batch_inputs(batch);
  inputs.insert(inputs.begin(), step.weights.begin(), step.weights.end());
  for (const Input& input : step.compiled.entry().inputs) {
    if (input.kind == Input::Kind::kNumber) inputs.push_back(number(input.name, batch_idx));
  }
  return step.compiled.run(std::move(inputs));
}

StepOutput ExportedModule::take(const Step& step, std::vector<at::Tensor> outputs) {
  const at::NoGradGuard no_grad;
  for (const auto& [buffer, index] : step.buffers) buffer.copy_(outputs[index]);
  StepOutput result;
  const auto& described = step.compiled.entry().outputs;
  for (std::size_t index = 0; index < described.size(); ++index) {
    const Output& output = described[index];
    if (output.kind == Output::Kind::kLoss) result.loss = outputs[index];
    if (output.kind == Output::Kind::kExtra) result.extras.set(output.name, outputs[index]);
    if (output.kind != Output::Kind::kLog) continue;
    LogOptions options = output.options;
    if (index + 1 < described.size() && described[index + 1].kind == Output::Kind::kWeight) {
      options.batch_size = outputs[index + 1].item<std::int64_t>();
    }
    log(output.name, outputs[index], options);
  }
  return result;
}

StepOutput ExportedModule::training_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("training_step");
  if (step == nullptr) return Module::training_step(batch, batch_idx);
  std::vector<at::Tensor> outputs = run(*step, batch, batch_idx);
  std::vector<at::Tensor> gradients(
      std::make_move_iterator(outputs.begin() + static_cast<std::ptrdiff_t>(step->first_gradient)),
      std::make_move_iterator(outputs.end()));
  StepOutput result = take(*step, std::move(outputs));
  result.loss = with_gradients(result.loss, step->trained, std::move(gradients));
  return result;
}

void ExportedModule::validation_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("validation_step");
  if (step == nullptr) return Module::validation_step(batch, batch_idx);
  set_step_output(take(*step, run(*step, batch, batch_idx)));
}

void ExportedModule::test_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("test_step");
  if (step == nullptr) return Module::test_step(batch, batch_idx);
  set_step_output(take(*step, run(*step, batch, batch_idx)));
}

Batch ExportedModule::predict_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("predict_step");
  if (step == nullptr) return Module::predict_step(batch, batch_idx);
  return take(*step, run(*step, batch, batch_idx)).extras;
}

void ExportedModule::on_fit_start() {
  for (const PackageFile::Weight& weight : package_.weights) {
    if (weight.is_parameter && weight.tensor.requires_grad() && !weight.is_trained) {
      throw ConfigError(
          format("{} of '{}' was frozen when it was exported, so that the package has no gradient for it. Freeze it here, "
                 "or export the module with requires_grad=True.",
                 weight.name, package_.path));
    }
  }
}

}  // namespace levin
