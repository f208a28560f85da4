#include "levin/core/module.h"

#include <algorithm>
#include <cmath>

#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/device_copies.h"
#include "levin/core/engine/parts/scalar_value.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/gradients.h"
#include "levin/core/metric.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {
[[noreturn]] void throw_missing_step(const char* step, const char* entry_point) {
  throw MisuseError(
      format("The module has no {}, which Trainer::{} needs. Override levin::Module::{}.", step, entry_point, step));
}
}  // namespace

Module::~Module() { ModuleAttachment::forget(*this); }

StepOutput Module::training_step(const Batch&, std::int64_t) { throw_missing_step("training_step", "fit"); }
void Module::validation_step(const Batch&, std::int64_t) {
  if (!has_trainer() || !trainer().fitting()) throw_missing_step("validation_step", "validate");
  Console::instance().warn_once(
      "The module has no validation_step, so validation measures nothing. Override levin::Module::validation_step, or leave "
      "validation out (limit_val_batches: 0).",
      {}, Speaker::kRun);
}
void Module::test_step(const Batch&, std::int64_t) { throw_missing_step("test_step", "test"); }
Batch Module::predict_step(const Batch&, std::int64_t) { throw_missing_step("predict_step", "predict"); }
void Module::set_step_output(StepOutput output) {
  TrainerState& run = TrainerState::of(trainer());
  const Hook hook = run.tracker.hook();
  if (hook != Hook::kValidationStep && hook != Hook::kTestStep) {
    throw MisuseError("set_step_output() works in validation_step and test_step only; training_step returns its output.");
  }
  run.evaluation_output = std::move(output);
}
std::int64_t Module::dataloader_idx() const { return trainer().dataloader_idx(); }

void Module::log(std::string_view name, double value, const LogOptions& options, SourceLocation where) {
  MetricStore* const metrics = ModuleAttachment::metrics(*this, name, where);
  if (metrics == nullptr) return;
  if (const auto* recorded = TrainerState::of(*attachment_.trainer).graph.logs()) [[unlikely]]
    recorded->refuse_number(name);
  metrics->log(name, value, options, where);
  if (!std::isfinite(value)) [[unlikely]]
    TrainerState::of(*attachment_.trainer).nan.look_at_metric(name, value);
}

void Module::log(std::string_view name, const at::Tensor& value, const LogOptions& options, SourceLocation where) {
  MetricStore* const metrics = ModuleAttachment::metrics(*this, name, where);
  if (metrics == nullptr) return;
  const auto misuse = [&](const std::string& what) {
    throw MisuseError(
        format("{}: log(\"{}\") in {} got a tensor with {}", CallSite(where).str(), name, hook_name(metrics->hook()), what));
  };
  if (!value.defined()) misuse("no value; it takes a tensor with one element.");
  if (value.numel() != 1) {
    misuse(format("{} elements; it takes a tensor with one element (take its mean() first?).", value.numel()));
  }
  if (value.is_complex()) misuse("a complex number; it takes a real one (log its abs(), or real() and imag()?).");
  if (auto* recorded = TrainerState::of(*attachment_.trainer).graph.logs()) [[unlikely]] {
    return recorded->add(name, value, options, where);
  }
  if (value.is_cpu()) {
    log(name, scalar_value(value), options, where);
  } else {
    metrics->log(name, std::make_shared<DeferredScalar>(value, TrainerState::of(*attachment_.trainer).scalars), options, where);
  }
}

void Module::own_object(std::string name, std::shared_ptr<MetricObject> object) {
  if (name.empty()) throw MisuseError("add_metric(): the name of a metric is empty.");
  const auto is_taken = [&](const auto& other) { return other.first == name || other.second == object; };
  if (std::any_of(metrics_.begin(), metrics_.end(), is_taken)) {
    throw MisuseError(format("add_metric(\"{}\"): the module has it already; give each metric a name of its own.", name));
  }
  object->set_name(name);
  metrics_.emplace_back(std::move(name), std::move(object));
}

Metric& Module::add_metric(std::string name, const std::shared_ptr<Metric>& metric) {
  own_object(std::move(name), metric);
  return *metric;
}

MetricCollection Module::add_metrics(const std::string& name, const MetricCollection& metrics) {
  for (const auto& [first, state] : metrics.states()) own_object(format("{}.{}", name, first), state);
  return metrics;
}

void Module::log_dict(const MetricCollection& metrics, const LogOptions& options, SourceLocation where) {
  for (const auto& [first, state] : metrics.states()) {
    MetricStore* const store = ModuleAttachment::metrics(*this, first, where);
    if (store != nullptr) store->log(first, *state, options, where);
  }
}

void Module::log(std::string_view name, Metric& metric, const LogOptions& options, SourceLocation where) {
  if (MetricStore* const metrics = ModuleAttachment::metrics(*this, name, where)) metrics->log(name, metric, options, where);
}

void Module::log_dict(const std::vector<std::pair<std::string, at::Tensor>>& metrics, const LogOptions& options,
                      SourceLocation where) {
  for (const auto& [name, value] : metrics) log(name, value, options, where);
}

void Module::log_dict(const std::vector<std::pair<std::string, double>>& metrics, const LogOptions& options,
                      SourceLocation where) {
  for (const auto& [name, value] : metrics) log(name, value, options, where);
}

Batch Module::on_before_batch_transfer(Batch batch, std::int64_t) { return batch; }
Batch Module::transfer_batch_to_device(Batch batch, const at::Device& device, std::int64_t) {
  return device.is_cpu() ? std::move(batch) : copied_beside_work(batch, device);
}
Batch Module::on_after_batch_transfer(Batch batch, std::int64_t) { return batch; }
void Module::optimizer_zero_grad(torch::optim::Optimizer& optimizer) { levin::zero_grad(optimizer); }
void Module::backward(const at::Tensor& loss) { loss.backward(); }
void Module::configure_gradient_clipping(torch::optim::Optimizer& optimizer) {
  const TrainerOptions& options = trainer().options();
  if (options.gradient_clip_val) clip_gradients(optimizer, *options.gradient_clip_val, options.gradient_clip_algorithm);
}
void Module::optimizer_step(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& closure) {
  optimizer.step(closure);
}
void Module::lr_scheduler_step(LrScheduler& scheduler, std::optional<double> metric) { scheduler.step(metric); }

void Module::on_validation_model_zero_grad() {
  // Which gradients are done with, only a module's own optimization knows.
  if (!automatic_optimization()) return;
  for (auto& parameter : parameters()) parameter.mutable_grad().reset();
}
void Module::on_validation_model_eval() { eval(); }
void Module::on_test_model_eval() { eval(); }
void Module::on_predict_model_eval() { eval(); }

Trainer& Module::trainer() const {
  if (!has_trainer()) {
    throw MisuseError(
        "The module is not attached to a Trainer: trainer() works inside fit, validate, test and predict, in the module that "
        "was given to them and in those that are registered below it with register_module().");
  }
  return *attachment_.trainer;
}
bool Module::has_trainer() const { return ModuleAttachment::find(*this); }
bool Module::is_global_zero() const { return trainer().is_global_zero(); }
std::int64_t Module::current_epoch() const { return trainer().current_epoch(); }
std::int64_t Module::global_step() const { return trainer().global_step(); }
at::Device Module::device() const { return has_trainer() ? attachment_.trainer->device() : at::Device(at::kCPU); }
at::Generator Module::rank_generator() const { return trainer().rank_generator(); }
at::Generator Module::shared_generator() const { return trainer().shared_generator(); }
at::Tensor Module::all_gather(const at::Tensor& tensor, const GatherOptions& options, SourceLocation where) const {
  if (options.gradients) return TrainerState::of(trainer()).gathered->gather(tensor, where);
  return trainer().strategy().all_gather(tensor, where);
}

at::Tensor Module::gather_for_metrics(const at::Tensor& rows, std::int64_t dataloader_idx, SourceLocation where) const {
  return gather_for_metrics(std::vector<at::Tensor>{rows}, dataloader_idx, where);
}

torch::optim::Optimizer& Module::optimizer(std::size_t index) const {
  const auto& optimizers = trainer().optimizers();
  if (index >= optimizers.size()) {
    throw MisuseError(format("optimizer({}): configure_optimizers returned {} optimizers.", index, optimizers.size()));
  }
  return *optimizers[index];
}
LrScheduler& Module::lr_scheduler(std::size_t index) const {
  const auto& configs = trainer().scheduler_configs();
  if (index >= configs.size()) {
    throw MisuseError(format("lr_scheduler({}): configure_optimizers returned {} schedulers.", index, configs.size()));
  }
  return *configs[index].scheduler;
}
void Module::clip_gradients(torch::optim::Optimizer& optimizer, double value, GradientClipAlgorithm algorithm) {
  levin::clip_gradients(optimizer, value, algorithm, has_trainer() ? &TrainerState::of(trainer()).measures.norms : nullptr);
}

}  // namespace levin
