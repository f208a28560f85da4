#include "levin/core/module.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/device_copies.h"
#include "levin/core/media/tensor_items.h"
#include "levin/core/metric_collection.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/gathered_rows.h"
#include "levin/core/run/scalar_value.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/predictor_parts.h"
#include "levin/core/state/trainer_state.h"
#include "levin/core/step/gradients.h"
#include "levin/core/step/precision.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_missing_step(const char* step, const char* entry_point) {
  throw MisuseError(
      format("The module has no {}, which Trainer::{} needs. Override levin::Module::{}.", step, entry_point, step));
}

/// The step of the row of metrics that are logged here.
std::int64_t step_of(const Progress& progress, Hook hook) {
  const bool after_steps = hook == Hook::kOnTrainEpochEnd || hook == Hook::kOnTrainEnd || hook == Hook::kOnFitEnd;
  return after_steps ? std::max<std::int64_t>(0, progress.logging_step - 1) : progress.logging_step;
}

/// Throws MisuseError for an invalid call.
void check_call(const TrainerState& run, const ItemCall& call) {
  if (!run.entry.active) call.misuse("it is called outside of a run. Log in the hooks of fit, validate, test and predict.");
  if (run.entry.thread != std::this_thread::get_id())
    call.misuse(
        "it is called on another thread than the one that runs the hooks. Store the item, and log it in the next hook.");
  if (call.name.empty()) call.misuse("the name is empty");
  const auto is_control = [](char one) { return static_cast<unsigned char>(one) < 0x20 || one == 0x7f; };
  if (std::ranges::any_of(call.name, is_control)) call.misuse("the name contains a line break or another control character");
  // The device replays recorded work without calling the module.
  if (run.graph.logs() != nullptr) call.misuse("a training step that logs this cannot be recorded");
}

/// Metrics logged there are not written either.
bool is_shown(const TrainerState& run) { return run.progress.stage != Stage::kSanityCheck && !run.resume.replaying; }

/// Passes an item of this run to its loggers. `make`: checks and makes it.
template <class Make>
void give_item(const Module& module, std::string_view function, std::string_view name, SourceLocation where, const Make& make) {
  if (ModuleAttachment::metrics(module, name, where, function) == nullptr) return;
  const ItemCall call{function, name, where};
  TrainerState& run = TrainerState::of(module.trainer());
  check_call(run, call);
  WaitingItem waiting = make(call);
  if (!is_shown(run)) return;
  waiting.item.name = name;
  waiting.item.step = step_of(run.progress, run.tracker.hook());
  waiting.item.epoch = run.progress.epoch;
  waiting.item.rank = run.strategy().rank();
  run.items.give(std::move(waiting));
}

/// Before the first manual_backward(); the user may have called backward() directly.
void warn_without_gradient(const torch::optim::Optimizer& optimizer) {
  if (std::ranges::any_of(all_parameters(optimizer), [](const at::Tensor& one) { return one.grad().defined(); })) return;
  Console::instance().warn_once(
      "step_optimizer() found no gradients and changed nothing: call manual_backward(loss) before it.",
      "a step without gradients", Speaker::kRun);
}

/// For a run with manual optimization.
TrainerState& run_by_hand(const Trainer& trainer) {
  TrainerState& run = TrainerState::of(trainer);
  if (run.step_votes == nullptr) {
    throw MisuseError("manual_backward and step_optimizer work during training only, not in " +
                      std::string(hook_name(run.tracker.hook())) + ".");
  }
  if (run.module().automatic_optimization()) {
    throw MisuseError(
        "manual_backward and step_optimizer need set_automatic_optimization(false) in the constructor; else the Trainer does "
        "both.");
  }
  return run;
}

}  // namespace

Module::~Module() { ModuleAttachment::forget(*this); }

StepOutput Module::training_step(const Batch&, std::int64_t) { throw_missing_step("training_step", "fit"); }
void Module::validation_step(const Batch&, std::int64_t) {
  if (!has_trainer() || !trainer().fitting()) throw_missing_step("validation_step", "validate");
  Console::instance().warn_once(
      "The module has no validation_step, so validation measures nothing. Override levin::Module::validation_step, or turn "
      "validation off (limit_val_batches: 0).",
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
    throw MisuseError(format("add_metric(\"{}\"): the module has it already; give each metric a different name.", name));
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

void Module::log_image(std::string_view name, const at::Tensor& image, SourceLocation where) {
  give_item(*this, "log_image", name, where, [&](const ItemCall& call) { return image_item(image, call); });
}

void Module::log_histogram(std::string_view name, const at::Tensor& values, SourceLocation where) {
  give_item(*this, "log_histogram", name, where, [&](const ItemCall& call) { return histogram_item(values, call); });
}

void Module::log_figure(std::string_view name, Figure figure, SourceLocation where) {
  give_item(*this, "log_figure", name, where, [&](const ItemCall& call) { return figure_item(std::move(figure), call); });
}

void Module::log_text(std::string_view name, std::string text, SourceLocation where) {
  give_item(*this, "log_text", name, where, [&](const ItemCall&) { return text_item(std::move(text)); });
}

void Module::log_table(std::string_view name, Table table, SourceLocation where) {
  give_item(*this, "log_table", name, where, [&](const ItemCall& call) { return table_item(std::move(table), call); });
}

void Module::log_file(std::string_view name, const fs::path& file, SourceLocation where) {
  give_item(*this, "log_file", name, where, [&](const ItemCall& call) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) {
      throw IoError(format("{}: log_file({}): there is no file {}", call.where.str(), quoted_text(name), file));
    }
    WaitingItem waiting;
    waiting.item.content = LoggedFile{fs::absolute(file)};
    return waiting;
  });
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
  // Only manual optimization knows which gradients are complete.
  if (!automatic_optimization()) return;
  for (auto& parameter : parameters()) parameter.mutable_grad().reset();
}
void Module::on_validation_model_eval() { eval(); }
void Module::on_test_model_eval() { eval(); }
void Module::on_predict_model_eval() { eval(); }

Trainer& Module::trainer() const {
  if (!has_trainer()) {
    if (attachment_.predictor != nullptr) {
      throw MisuseError(
          "The module is in a Predictor, which has no Trainer: its data_module() and device() are there, and has_trainer() "
          "says "
          "that there is no run.");
    }
    throw MisuseError(
        "The module is not attached to a Trainer: trainer() works inside fit, validate, test and predict, in their module and "
        "in its submodules (register_module()).");
  }
  return *attachment_.trainer;
}
bool Module::has_trainer() const { return ModuleAttachment::find(*this); }
const DataModule* Module::data_module() const {
  if (has_trainer()) return attachment_.trainer->data_module();
  return attachment_.predictor != nullptr ? attachment_.predictor->data.get() : nullptr;
}
bool Module::is_global_zero() const { return trainer().is_global_zero(); }
std::int64_t Module::current_epoch() const { return trainer().current_epoch(); }
std::int64_t Module::global_step() const { return trainer().global_step(); }
at::Device Module::device() const {
  if (has_trainer()) return attachment_.trainer->device();
  return attachment_.predictor != nullptr ? attachment_.predictor->device : at::Device(at::kCPU);
}
at::Generator Module::rank_generator() const { return trainer().rank_generator(); }
at::Generator Module::shared_generator() const { return trainer().shared_generator(); }
at::Tensor Module::all_gather(const at::Tensor& tensor, const GatherOptions& options, SourceLocation where) const {
  if (options.gradients) return TrainerState::of(trainer()).gathered->gather(tensor, where);
  return trainer().strategy().all_gather(tensor, where);
}

at::Tensor Module::gather_for_metrics(const at::Tensor& rows, std::int64_t dataloader_idx, SourceLocation where) const {
  return gather_for_metrics(std::vector<at::Tensor>{rows}, dataloader_idx, where);
}

at::Tensor Module::gather_for_metrics(const std::vector<at::Tensor>& batches, std::int64_t dataloader_idx,
                                      SourceLocation where) const {
  const TrainerState& run = TrainerState::of(trainer());
  const std::string call = "gather_for_metrics at " + CallSite(where).str();
  return gather_rows(run.rank_exchange(), batches, run.progress.batch, dataloader_idx, call).to(run.strategy().device());
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

void Module::manual_backward(const at::Tensor& loss, bool synchronize) {
  TrainerState& run = run_by_hand(trainer());
  const PrecisionPolicy::Plain plain(run.strategy().device().type());
  run.accumulation.window.in_backward = true;
  run.measures.losses.add(loss, 1);
  run_backward(run.step_context(), *run.step_votes, run.scaler.scale(loss), synchronize);
  // Until they are reduced, gradients belong to each rank.
  run.accumulation.window.open = !synchronize;
}

void Module::step_optimizer(std::size_t index) {
  TrainerState& run = run_by_hand(trainer());
  const PrecisionPolicy::Plain plain(run.strategy().device().type());
  torch::optim::Optimizer& stepped = optimizer(index);
  if (!run.leaves.saw_loss()) warn_without_gradient(stepped);
  run.scaler.unscale(stepped);
  if (run.nan.skips_step(stepped, run.module())) return run.measures.losses.restart();
  run.hooks.run(Hook::kOnBeforeOptimizerStep, &Callback::on_before_optimizer_step, &Module::on_before_optimizer_step, stepped);
  begin_step(run.strategy(), stepped);
  stepped.step();
  run.strategy().after_optimizer_step(stepped);
  run.measures.losses.restart();
  ++run.progress.global_step;
}

void Module::toggle_optimizer(std::size_t index) {
  TrainedParameters& trained = run_by_hand(trainer()).trained;
  optimizer(index);  // throws for an unknown index
  if (const auto other = trained.toggled()) {
    throw MisuseError(
        format("toggle_optimizer({}): optimizer {} is toggled. Call untoggle_optimizer({}) first.", index, *other, *other));
  }
  trained.toggle(index);
}

void Module::untoggle_optimizer(std::size_t index) {
  TrainedParameters& trained = run_by_hand(trainer()).trained;
  if (trained.toggled() != index) {
    throw MisuseError(
        format("untoggle_optimizer({}): this optimizer is not toggled. Call toggle_optimizer({}) before.", index, index));
  }
  trained.untoggle();
}

}  // namespace levin
