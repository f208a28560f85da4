#include "levin/exported/exported_module.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/component.h"
#include "levin/core/config/registry.h"
#include "levin/core/trainer.h"
#include "levin/exported/compiled_entry.h"
#include "levin/exported/compiled_gradients.h"

namespace levin {

LEVIN_REGISTER_MODULE(ExportedModule, "The steps of a Python module, compiled by levin_train.export()");

using Input = PackageEntry::Input;
using Output = PackageEntry::Output;

void ExportedModuleOptions::declare(OptionList<ExportedModuleOptions>& options) {
  options.add("package", &ExportedModuleOptions::package, "The file of Python's levin_train.export()").input_file().required();
}

/// An entry with what it reads and writes of the module, so that a step looks nothing up.
struct ExportedModule::Step {
  Step(const PackageFile& package, const PackageEntry& entry) : compiled(package, entry) {}

  struct Log {
    std::string name;
    LogOptions options;
    std::size_t value = 0;                   ///< the output that is logged
    std::optional<std::size_t> weight = {};  ///< the output with the size of the batch, where the step gives one
    Metric* metric = nullptr;                ///< logged instead of a value
  };
  struct Update {
    Metric* metric = nullptr;
    std::vector<std::size_t> inputs;
  };

  CompiledEntry compiled;
  std::vector<at::Tensor> weights;                          ///< inputs that are parameters or buffers, in their order
  std::vector<std::pair<at::Tensor, std::size_t>> buffers;  ///< what the step changes, and the output with the new value
  std::vector<at::Tensor> trained;                          ///< parameters with a gradient, in the order of outputs
  std::size_t first_gradient = 0;
  std::optional<std::size_t> loss;
  std::vector<Log> logs;
  std::vector<Update> updates;
  std::vector<std::pair<std::string, std::size_t>> extras;
};

ExportedModule::ExportedModule(const Options& options)
    : package_(PackageFile::open(checked("ExportedModule", options).package)) {
  register_weights();
  for (const PackageEntry& entry : package_.entries) steps_.push_back(make_step(entry));
}

Metric* ExportedModule::metric_of(const Value& described) {
  const std::string& attribute = described.at("attribute").as_string();
  Metric*& metric = metrics_[attribute];
  if (metric == nullptr) {
    metric = &add_metric(attribute, Component<Metric>(described.at("class_path"), described.at("init_args")).get());
  }
  return metric;
}

std::unique_ptr<ExportedModule::Step> ExportedModule::make_step(const PackageEntry& entry) {
  auto step = std::make_unique<Step>(package_, entry);
  std::map<std::string_view, at::Tensor> tensors;
  for (const PackageFile::Weight& weight : package_.weights) tensors[weight.name] = weight.tensor;
  for (const Input& input : entry.inputs) {
    if (input.kind == Input::Kind::kParameter || input.kind == Input::Kind::kBuffer)
      step->weights.push_back(tensors.at(input.name));
  }
  for (std::size_t index = 0; index < entry.outputs.size(); ++index) {
    const Output& output = entry.outputs[index];
    switch (output.kind) {
      case Output::Kind::kLoss:
        step->loss = index;
        break;
      case Output::Kind::kLog:
        step->logs.push_back({output.name, output.options, index});
        break;
      case Output::Kind::kWeight:
        step->logs.back().weight = index;
        break;
      case Output::Kind::kMetric: {
        Metric* const metric = metric_of(output.metric);
        if (step->logs.empty() || step->logs.back().name != output.name) {
          step->logs.push_back({.name = output.name, .options = output.options, .metric = metric});
          const auto is_updated = [&](const Step::Update& update) { return update.metric == metric; };
          if (std::ranges::none_of(step->updates, is_updated)) step->updates.push_back({metric, {}});
        }
        if (step->updates.back().metric == metric && step->updates.back().inputs.size() < 2)
          step->updates.back().inputs.push_back(index);
        break;
      }
      case Output::Kind::kExtra:
        step->extras.emplace_back(output.name, index);
        break;
      case Output::Kind::kCondition:
        break;  // CompiledEntry checks it
      case Output::Kind::kBuffer:
        step->buffers.emplace_back(tensors.at(output.name), index);
        break;
      case Output::Kind::kGradient:
        if (step->trained.empty()) step->first_gradient = index;
        step->trained.push_back(tensors.at(output.name));
        break;
    }
  }
  if (entry.name == "training_step" && (!step->loss || step->trained.empty())) {
    throw IoError(format("Cannot load '{}': its training_step gives no loss, or no gradient.", package_.path));
  }
  return step;
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
  for (const PackageFile::Weight& weight : package_.weights) {
    if (weight.is_parameter && !weight.is_trained) frozen_.emplace_back(weight.name, weight.tensor);
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
  // In a Predictor they are those of a run that predicts.
  const std::int64_t value = name == "batch_idx"        ? batch_idx
                             : !has_trainer()           ? 0
                             : name == "dataloader_idx" ? dataloader_idx()
                             : name == "global_step"    ? trainer().global_step()
                             : name == "current_epoch"  ? trainer().current_epoch()
                                                        : batch_idx;
  return at::scalar_tensor(value, at::kLong);
}

std::vector<at::Tensor> ExportedModule::run(const Step& step, const Batch& batch, std::int64_t batch_idx) const {
  std::vector<at::Tensor> inputs = step.weights;
  for (at::Tensor& tensor : step.compiled.batch_inputs(batch)) inputs.push_back(std::move(tensor));
  for (const Input& input : step.compiled.entry().inputs) {
    if (input.kind == Input::Kind::kNumber) inputs.push_back(number(input.name, batch_idx));
  }
  return step.compiled.run(std::move(inputs));
}

StepOutput ExportedModule::take(const Step& step, const std::vector<at::Tensor>& outputs) {
  const at::NoGradGuard no_grad;
  for (const auto& [buffer, index] : step.buffers) buffer.copy_(outputs[index]);
  for (const Step::Update& update : step.updates) {
    update.metric->update(outputs[update.inputs[0]], update.inputs.size() > 1 ? outputs[update.inputs[1]] : at::Tensor());
  }
  for (const Step::Log& logged : step.logs) {
    LogOptions options = logged.options;
    if (logged.weight) options.batch_size = outputs[*logged.weight].item<std::int64_t>();
    if (logged.metric != nullptr) {
      log(logged.name, *logged.metric, options);
    } else {
      log(logged.name, outputs[logged.value], options);
    }
  }
  StepOutput result;
  if (step.loss) result.loss = outputs[*step.loss];
  for (const auto& [name, index] : step.extras) result.extras.set(name, outputs[index]);
  return result;
}

void ExportedModule::setup(Stage stage) {
  if (stage == Stage::kTrain) check_run();
}

void ExportedModule::check_run() const {
  if (!trainer().device().is_cpu()) {
    throw ConfigError(format("'{}' was compiled for the CPU, and the run computes on {}. Set trainer.accelerator to cpu.",
                             package_.path, trainer().device().str()));
  }
  const std::string_view precision = choice_name(trainer().options().precision);
  if (precision != package_.precision) {
    throw ConfigError(
        format("'{}' was exported for precision {}, and the run has {}. Set trainer.precision to {}, or export it with "
               "precision=\"{}\".",
               package_.path, package_.precision, precision, package_.precision, precision));
  }
}

void ExportedModule::check_frozen(const Step& step) const {
  for (const auto& [name, parameter] : frozen_) {
    if (!parameter.requires_grad()) continue;
    throw ConfigError(
        format("{} was frozen when '{}' was exported, so that {} computes no gradient for it. Freeze it here, or export "
               "the module with its requires_grad.",
               name, package_.path, step.compiled.entry().name));
  }
}

StepOutput ExportedModule::training_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("training_step");
  if (step == nullptr) return Module::training_step(batch, batch_idx);
  check_run();  // a class below this one may have its own setup()
  check_frozen(*step);
  std::vector<at::Tensor> outputs = run(*step, batch, batch_idx);
  StepOutput result = take(*step, outputs);
  outputs.erase(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(step->first_gradient));
  result.loss = with_gradients(result.loss, step->trained, std::move(outputs));
  return result;
}

void ExportedModule::backward(const at::Tensor& loss) { backward_of_compiled(loss); }

void ExportedModule::validation_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("validation_step");
  step == nullptr ? Module::validation_step(batch, batch_idx) : set_step_output(take(*step, run(*step, batch, batch_idx)));
}

void ExportedModule::test_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("test_step");
  step == nullptr ? Module::test_step(batch, batch_idx) : set_step_output(take(*step, run(*step, batch, batch_idx)));
}

Batch ExportedModule::predict_step(const Batch& batch, std::int64_t batch_idx) {
  const Step* const step = this->step("predict_step");
  return step == nullptr ? Module::predict_step(batch, batch_idx) : take(*step, run(*step, batch, batch_idx)).extras;
}

}  // namespace levin
