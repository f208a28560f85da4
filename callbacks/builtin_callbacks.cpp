#include "levin/callbacks/builtin_callbacks.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"
#include "levin/core/learning_rates.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {

AccumulationSchedule OptionType<AccumulationSchedule>::read(const Value& value) {
  if (!value.is_map()) detail::throw_wrong_type(value, name());
  AccumulationSchedule schedule;
  for (const auto& [key, batches] : value.as_map()) {
    std::int64_t epoch = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), epoch);
    if (error != std::errc() || end != key.data() + key.size()) {
      throw ConfigError(batches.mark(),
                        quoted_text(key) + " is no epoch: the keys of scheduling are numbers, as in {0: 1, 4: 8}.");
    }
    if (epoch < 0) throw ConfigError(batches.mark(), format("epoch {} is below 0; epochs count from 0", key));
    schedule[epoch] = OptionType<std::int64_t>::read(batches);
    if (schedule[epoch] < 1)
      throw ConfigError(batches.mark(), format("epoch {} accumulates {} batches; 1 is the least", key, schedule[epoch]));
  }
  return schedule;
}

Value OptionType<AccumulationSchedule>::write(const AccumulationSchedule& schedule) {
  Value map(Value::Map{});
  for (const auto& [epoch, batches] : schedule) map[std::to_string(epoch)] = batches;
  return map;
}

Value OptionType<AccumulationSchedule>::schema() {
  Value map = detail::schema_of_type("object");
  map["propertyNames"]["pattern"] = "^[0-9]+$";
  Value& batches = map["additionalProperties"] = detail::schema_of_type("integer");
  batches["minimum"] = 1;
  return map;
}

LEVIN_REGISTER_CALLBACK(GradientAccumulationScheduler, "Change accumulate_grad_batches at given epochs");

void GradientAccumulationSchedulerOptions::declare(OptionList<GradientAccumulationSchedulerOptions>& options) {
  options
      .add(&GradientAccumulationSchedulerOptions::scheduling,
           "From each of these epochs on, so many batches make one step: {0: 1, 4: 8}")
      .required()
      .not_empty();
}

GradientAccumulationScheduler::GradientAccumulationScheduler(Options options)
    : WithOptions("GradientAccumulationScheduler", std::move(options)) {
  options_.scheduling.try_emplace(0, 1);
}

std::int64_t GradientAccumulationScheduler::accumulate_grad_batches(std::int64_t epoch) const {
  return std::prev(options_.scheduling.upper_bound(epoch))->second;
}

void GradientAccumulationScheduler::setup(Trainer& trainer, Module&, Stage stage) {
  if (stage == Stage::kTrain) trainer.set_accumulate_grad_batches(options_.scheduling.at(0));
}

void GradientAccumulationScheduler::on_train_start(Trainer& trainer, Module& module) {
  if (!module.automatic_optimization()) {
    throw MisuseError(
        "GradientAccumulationScheduler cannot accumulate for a module that optimizes manually. Remove the callback, or let "
        "the Trainer optimize.");
  }
  if (trainer.options().accumulate_grad_batches != 1) {
    throw MisuseError(
        format("The Trainer has accumulate_grad_batches: {} and a GradientAccumulationScheduler. Remove one of them.",
               trainer.options().accumulate_grad_batches));
  }
}

void GradientAccumulationScheduler::on_train_epoch_start(Trainer& trainer, Module&) {
  trainer.set_accumulate_grad_batches(accumulate_grad_batches(trainer.current_epoch()));
}

namespace {

/// The momentum, or Adam's first beta, which takes its part; nothing for optimizers without either.
std::optional<double> momentum_of(const torch::optim::OptimizerParamGroup& group) {
  if (const auto betas = get_betas(group)) return betas->first;
  return get_momentum(group);
}

}  // namespace

LEVIN_REGISTER_CALLBACK(LearningRateMonitor, "Hand learning rates to the loggers");

void LearningRateMonitorOptions::declare(OptionList<LearningRateMonitorOptions>& options) {
  using O = LearningRateMonitorOptions;
  options.add(&O::logging_interval, "step or epoch; null: as often as each scheduler steps");
  options.add(&O::log_momentum, "Also log momentum, or the first beta of Adam");
  options.add(&O::log_weight_decay, "Also log weight decay");
  options.add(&O::prefix, "Put before each name, such as optim/");
}

void LearningRateMonitor::on_train_start(Trainer& trainer, Module&) {
  lrs_.clear();
  detail::require_logger("LearningRateMonitor", trainer);
  if (!options_.log_momentum) return;
  for (const auto& optimizer : trainer.optimizers()) {
    const auto& groups = optimizer->param_groups();
    if (std::all_of(groups.begin(), groups.end(), [](const auto& group) { return momentum_of(group).has_value(); })) continue;
    rank_zero_warn(format("LearningRateMonitor: {} has no momentum; 0 is logged for it.", optimizer_class_name(*optimizer)));
  }
}

void LearningRateMonitor::on_train_epoch_start(Trainer& trainer, Module&) {
  if (options_.logging_interval != Interval::kStep) log(trainer, Interval::kEpoch);
}

void LearningRateMonitor::on_train_batch_start(Trainer& trainer, Module& module, const Batch&, std::int64_t batch_idx) {
  if (options_.logging_interval != Interval::kEpoch && detail::begins_row(trainer, module, batch_idx))
    log(trainer, Interval::kStep);
}

void LearningRateMonitor::log(Trainer& trainer, Interval interval) {
  MetricMap row;
  for (const NamedParameterGroup& named : named_parameter_groups(trainer)) {
    if (named.scheduler != nullptr && !options_.logging_interval && named.scheduler->interval != interval) continue;
    const auto& group = named.optimizer->param_groups()[named.index];
    const std::string name = options_.prefix + named.name;
    row[name] = get_lr(group);
    constexpr std::string_view kFirst = "/pg1";
    if (name.ends_with(kFirst)) {
      // A group that is no longer alone has another name.
      auto alone = lrs_.extract(name.substr(0, name.size() - kFirst.size()));
      if (!alone.empty()) lrs_[name] = std::move(alone.mapped());
    }
    lrs_[name].push_back(row[name]);
    if (options_.log_momentum) row[name + "-momentum"] = momentum_of(group).value_or(0.0);
    if (options_.log_weight_decay) row[name + "-weight_decay"] = get_weight_decay(group).value_or(0.0);
  }
  if (row.empty()) return;
  for (const auto& [name, value] : row) trainer.set_callback_metric(name, value);
  trainer.log_to_loggers(row);
}

namespace {

struct Count {
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
  std::int64_t bytes = 0;
};

Count count_parameters(const std::vector<at::Tensor>& parameters) {
  Count count;
  std::unordered_set<const void*> seen;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    count.parameters += parameter.numel();
    count.bytes += parameter.numel() * static_cast<std::int64_t>(parameter.element_size());
    if (parameter.requires_grad()) count.trainable += parameter.numel();
  }
  return count;
}

void add_rows(TextTable& table, const torch::nn::Module& parent, const std::string& prefix, std::int64_t levels) {
  if (levels == 0) return;
  for (const auto& child : parent.named_children()) {
    const torch::nn::Module& module = *child.value();
    const std::string name = prefix + child.key();
    table.rows.push_back({std::to_string(table.rows.size()), name, detail::short_type_name(module.name()),
                          detail::abbreviated_count(count_parameters(module.parameters()).parameters),
                          module.is_training() ? "train" : "eval"});
    add_rows(table, module, name + ".", levels - 1);
  }
}

std::string footer_line(const std::string& figure, const std::string& label) {
  std::string line = figure;
  line.resize(std::max<std::size_t>(line.size() + 1, 10), ' ');
  return format("\n{}{}", line, label);
}

}  // namespace

std::string summarize_model(const torch::nn::Module& model, std::int64_t max_depth) {
  TextTable table;
  table.header = {" ", "Name", "Type", "Params", "Mode"};
  add_rows(table, model, "", max_depth);
  const Count own = count_parameters(model.parameters(/*recurse=*/false));
  if (own.parameters > 0) table.rows.push_back({" ", "other params", "n/a", detail::abbreviated_count(own.parameters), "n/a"});

  const Count total = count_parameters(model.parameters());
  std::int64_t in_train_mode = 0;
  const auto submodules = model.modules(/*include_self=*/false);
  for (const auto& module : submodules) in_train_mode += module->is_training() ? 1 : 0;

  return table.str() + "\n" + footer_line(detail::abbreviated_count(total.trainable), "Trainable params") +
         footer_line(detail::abbreviated_count(total.parameters - total.trainable), "Non-trainable params") +
         footer_line(detail::abbreviated_count(total.parameters), "Total params") +
         footer_line(format("{:.3f}", static_cast<double>(total.bytes) * 1e-6), "Total estimated model params size (MB)") +
         footer_line(std::to_string(in_train_mode), "Modules in train mode") +
         footer_line(std::to_string(static_cast<std::int64_t>(submodules.size()) - in_train_mode), "Modules in eval mode");
}

LEVIN_REGISTER_CALLBACK(ModelSummary, "Print what the model is made of");

void ModelSummaryOptions::declare(OptionList<ModelSummaryOptions>& options) {
  options.add(&ModelSummaryOptions::max_depth, "Levels of submodules to show; -1: all, 0: no summary")
      .min(-1)
      .instead("-1 shows all");
}

void ModelSummary::on_fit_start(Trainer& trainer, Module& module) {
  if (options_.max_depth == 0 || !trainer.is_global_zero()) return;
  rank_zero_info("\n" + summarize_model(module, options_.max_depth));
}

LEVIN_REGISTER_CALLBACK(OnExceptionCheckpoint, "Save the state of a run that ends with an error");

void OnExceptionCheckpointOptions::declare(OptionList<OnExceptionCheckpointOptions>& options) {
  using O = OnExceptionCheckpointOptions;
  options.add(&O::dirpath, "Folder to save in").required().not_empty();
  options.add(&O::filename, "Name of the file, without .ckpt").not_empty();
  options.rule({"filename"}, [](const O& saving) -> std::string {
    if (!leaves_folder(saving.filename)) return "";
    return format("filename is {}, which leads out of dirpath: say with dirpath where to save", quoted_text(saving.filename));
  });
}

void OnExceptionCheckpoint::on_exception(Trainer& trainer, Module&, const std::exception&) {
  if (!trainer.is_global_zero() || !trainer.fitting() || trainer.sanity_checking()) return;
  try {
    trainer.save_checkpoint(ckpt_path());
    Console::instance().info("Saved the state of the failed run as " + ckpt_path().string());
  } catch (const std::exception& save_error) {
    // The error that ended the training is what matters; it leaves the Trainer after this hook.
    Console::instance().error(format("OnExceptionCheckpoint: the state could not be saved: {}", save_error.what()));
  }
}

void OnExceptionCheckpoint::on_fit_end(Trainer& trainer, Module&) {
  std::error_code ignored;
  if (trainer.is_global_zero() && Checkpoint::is_checkpoint(ckpt_path())) std::filesystem::remove(ckpt_path(), ignored);
}

LEVIN_REGISTER_CALLBACK(Timer, "Measure time, and stop training after a given time");

void TimerOptions::declare(OptionList<TimerOptions>& options) {
  options.add(&TimerOptions::duration, "Training time after which to stop, DD:HH:MM:SS; null: only measure");
  options.add(&TimerOptions::interval, "Look at the limit after each step or each epoch");
  options.add(&TimerOptions::verbose, "Say when the limit is reached");
}

double Timer::time_elapsed(Stage stage) const {
  const Span& measured = spans_[static_cast<std::size_t>(stage)];
  const double earlier = stage == Stage::kTrain ? earlier_training_ : 0.0;
  if (!measured.start) return earlier;
  return measured.end.value_or(steady_seconds()) - *measured.start + earlier;
}

std::optional<double> Timer::time_remaining() const {
  if (!options_.duration) return std::nullopt;
  return options_.duration->count() - time_elapsed(Stage::kTrain);
}

Value Timer::state_dict() const {
  Value elapsed(Value::Map{});
  for (std::size_t index = 0; index < spans_.size(); ++index) {
    const auto stage = static_cast<Stage>(index);
    elapsed[stage_name(stage)] = time_elapsed(stage);
  }
  Value state(Value::Map{});
  state["time_elapsed"] = std::move(elapsed);
  return state;
}

void Timer::load_state_dict(const Value& state) {
  const Value* elapsed = state.find("time_elapsed");
  const Value* training = elapsed == nullptr ? nullptr : elapsed->find(stage_name(Stage::kTrain));
  earlier_training_ = training == nullptr ? 0.0 : training->as_double();
}

void Timer::begin(Stage stage) { spans_[static_cast<std::size_t>(stage)] = {steady_seconds(), std::nullopt}; }
void Timer::end(Stage stage) { spans_[static_cast<std::size_t>(stage)].end = steady_seconds(); }

void Timer::check(Trainer& trainer) {
  if (!options_.duration || !trainer.is_global_zero() || *time_remaining() > 0) return;
  const std::string reason = format("Time limit reached after {} of training", duration_text(time_elapsed(Stage::kTrain)));
  trainer.stop(reason);
  if (options_.verbose && !std::exchange(told_, true)) rank_zero_info(reason + ". Training stops.");
}

// A state whose time was up already stops the run before it trains.
void Timer::on_fit_start(Trainer& trainer, Module&) {
  told_ = false;
  check(trainer);
}
void Timer::on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
  if (options_.interval == Interval::kStep) check(trainer);
}
void Timer::on_train_epoch_end(Trainer& trainer, Module&) {
  if (options_.interval == Interval::kEpoch) check(trainer);
}

void Timer::on_train_start(Trainer&, Module&) { begin(Stage::kTrain); }
void Timer::on_train_end(Trainer&, Module&) { end(Stage::kTrain); }
void Timer::on_validation_start(Trainer& trainer, Module&) { begin(trainer.stage()); }
void Timer::on_validation_end(Trainer& trainer, Module&) { end(trainer.stage()); }
void Timer::on_test_start(Trainer&, Module&) { begin(Stage::kTest); }
void Timer::on_test_end(Trainer&, Module&) { end(Stage::kTest); }

}  // namespace levin
