#include "levin/core/step/optimizers.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/data_module.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/epoch_plan.h"

namespace levin {

namespace {

SchedulerConfig config_of_settings(const Value& settings) {
  SchedulerConfig config;
  const auto read = [&](const char* key, auto& member, bool may_be_null = false) {
    const Value* value = settings.find(key);
    if (value != nullptr && !(may_be_null && value->is_null()))
      member = OptionType<std::remove_reference_t<decltype(member)>>::read(*value);
  };
  read("interval", config.interval);
  read("frequency", config.frequency);
  read("monitor", config.monitor, /*may_be_null=*/true);
  read("strict", config.strict);
  read("name", config.name, /*may_be_null=*/true);
  return config;
}

void check(const SchedulerConfig& config, bool automatic) {
  const std::string which =
      config.name.empty() ? "A learning-rate scheduler" : "The learning-rate scheduler '" + config.name + "'";
  if (!config.scheduler) throw MisuseError(which + " of configure_optimizers is empty.");
  if (config.frequency < 1) throw MisuseError(which + " has a frequency below 1.");
  if (!automatic && !config.monitor.empty()) {
    Console::instance().warn_once(
        format(
            "{} has a monitor, which has no effect under manual optimization: training_step steps the scheduler itself, with "
            "lr_scheduler().step(metric).",
            which),
        {}, Speaker::kRun);
  }
  if (!automatic || !config.scheduler->needs_metric()) return;
  if (config.monitor.empty()) {
    throw MisuseError(which + " needs a metric: set SchedulerConfig::monitor (in YAML lr_scheduler.monitor) to a logged key.");
  }
  const Value state = config.scheduler->state_dict();
  const Value* mode = state.find("mode");
  if (mode == nullptr || !mode->is_string()) return;
  const std::string warning = warning_of_mode(which, config.monitor, mode->as_string() == "max");
  if (!warning.empty()) Console::instance().warn_once(warning, {}, Speaker::kRun);
}

/// A scheduler has only a reference to its optimizer. The address can be compared even if the optimizer is destroyed.
void check_optimizer_of(const LrScheduler& scheduler, const OptimizerSetups& setups) {
  const torch::optim::Optimizer* optimizer = &scheduler.optimizer();
  const auto& all = setups.list();
  if (std::ranges::any_of(all, [&](const OptimizerSetup& setup) { return setup.optimizer.get() == optimizer; })) return;
  throw MisuseError(
      "A learning-rate scheduler of configure_optimizers was made for an optimizer that is not returned with it, and may be "
      "gone by now: make it for the optimizer that configure_optimizers returns.");
}

/// "AdamW with StepLr"
std::string describe(const OptimizerSetup& setup) {
  if (!setup.optimizer) return "no optimizer";
  const auto name_of = [](const SchedulerConfig& config) {
    const LrScheduler* const scheduler = config.scheduler.get();
    return scheduler == nullptr ? "no scheduler" : class_name_of(typeid(*scheduler));
  };
  const std::string schedulers = join(setup.schedulers, " and ", name_of);
  return optimizer_class_name(*setup.optimizer) + (schedulers.empty() ? "" : " with " + schedulers);
}

/// Makes the module's optimizers only for their names: `taken` replaces them.
void warn_of_overridden(Module& module, const OptimizerSetup& taken) {
  std::string own;
  try {
    own = join(module.configure_optimizers().list(), ", ", describe);
    if (own.empty()) return;
  } catch (const std::exception& error) {
    own = format("which fails here ({})", error_text(error));
  }
  rank_zero_warn(format(
      "{} of the configuration (optimizer:) replaces what {}::configure_optimizers gives, {}. Leave optimizer out to train "
      "with the module's own.",
      describe(taken), class_name_of(typeid(module)), own));
}

std::string name_of(const at::Tensor& wanted, const Module& module) {
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    if (parameter.is_same(wanted)) return "The parameter " + name;
  }
  return "A parameter that is not the module's";
}

/// LibTorch's parameters() repeats one that a module holds under two names or in two submodules: an optimizer would step it
/// twice.
void keep_distinct(torch::optim::Optimizer& optimizer, std::size_t index, const Module& module) {
  std::unordered_map<const at::TensorImpl*, std::size_t> groups;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    std::erase_if(optimizer.param_groups()[group].params(), [&](const at::Tensor& parameter) {
      const auto [known, is_new] = groups.emplace(parameter.unsafeGetTensorImpl(), group);
      if (is_new || known->second == group) return !is_new;
      throw MisuseError(format("{} is in groups {} and {} of optimizer {} ({}), which would step it twice: leave it in one.",
                               name_of(parameter, module), known->second, group, index, optimizer_class_name(optimizer)));
    });
  }
}

std::string missing_monitor(const SchedulerConfig& config, const MetricMap& metrics) {
  const std::string available = join(metrics.names());
  return format("A learning-rate scheduler monitors '{}', which no rank has logged.{} Logged so far: {}.", config.monitor,
                nearest_metric(config.monitor, metrics.names()), available.empty() ? "nothing" : available);
}

/// "epoch", "2 optimizer steps"
std::string interval_text(const SchedulerConfig& config) {
  const std::string unit = config.interval == Interval::kEpoch ? "epoch" : "optimizer step";
  return config.frequency == 1 ? unit : counted(static_cast<std::size_t>(config.frequency), unit);
}

/// The option of a schedule that lies furthest ahead, and its step; unset when the schedule has no end.
std::optional<std::pair<std::string, std::int64_t>> furthest(const Value& state) {
  std::optional<std::pair<std::string, std::int64_t>> found;
  const auto compare_length = [&](const std::string& name, const Value& step) {
    if (step.is_int() && (!found || step.as_int() > found->second)) found.emplace(name, step.as_int());
  };
  for (const char* name : {"total_steps", "T_max", "total_iters", "step_size", "milestones", "_milestones"}) {
    const Value* steps = state.find(name);
    if (steps == nullptr) continue;
    if (steps->is_list()) {
      for (const Value& milestone : steps->as_list()) compare_length("last milestone", milestone);
    } else {
      compare_length(name, *steps);
    }
  }
  const Value* epochs = state.find("epochs");
  const Value* each = state.find("steps_per_epoch");
  if (epochs != nullptr && each != nullptr && epochs->is_int() && each->is_int()) {
    compare_length("epochs times steps_per_epoch", epochs->as_int() * each->as_int());
  }
  return found;
}

using Rates = OptionType<std::vector<double>>;

/// The rates that a schedule is relative to; null if its state has none.
const Value* base_lrs_of(const Value& state) {
  const Value* parts = state.find("_schedulers");
  return parts != nullptr && parts->size() > 0 ? base_lrs_of(parts->as_list().front()) : state.find("base_lrs");
}

}  // namespace

void begin_with_rate(const RunParts& parts, double lr) {
  for (const auto& optimizer : parts.optimizers) {
    const auto is_other = [&](const SchedulerConfig& config) { return &config.scheduler->optimizer() != optimizer.get(); };
    std::vector<SchedulerConfig> schedulers = parts.schedulers;
    std::erase_if(schedulers, is_other);
    std::vector<double> bases;
    for (const SchedulerConfig& config : schedulers) {
      const Value state = config.scheduler->state_dict();
      if (const Value* found = base_lrs_of(state); found != nullptr && bases.empty()) bases = Rates::read(*found);
    }
    std::vector<double> lrs = get_lrs(*optimizer);
    bases.resize(lrs.size());
    for (std::size_t group = 0; group < lrs.size(); ++group) {
      // A warm-up begins with a fraction of its base rate.
      lrs[group] = bases[group] == 0 ? lr : lr * (lrs[group] / bases[group]);
      set_lr(optimizer->param_groups()[group], lrs[group]);
    }
    for (const SchedulerConfig& config : schedulers) {
      config.scheduler->change_rates([&](std::string_view key, std::size_t group, double rate) {
        return key == "base_lrs" ? lr : key == "_last_lr" ? lrs.at(group) : rate;
      });
    }
  }
}

OptimizerSetups make_optimizers(Module& module, const OptimizerOverride& override_by_name, const TrainingLength& length) {
  if (!override_by_name.optimizer) return module.configure_optimizers();
  OptimizerSetup setup;
  setup.optimizer = override_by_name.optimizer->make_for(module);
  if (override_by_name.scheduler) {
    const Value& settings = override_by_name.scheduler_settings;
    SchedulerConfig& config = setup.schedulers.emplace_back(config_of_settings(settings));
    const auto steps = [&] { return length.schedule_steps(config.interval, config.frequency); };
    config.scheduler = override_by_name.scheduler->make(*setup.optimizer, {steps, settings.mark()});
  }
  warn_of_overridden(module, setup);
  return setup;
}

void take_optimizers(const OptimizerSetups& setups, const TrainerOptions& options, RunParts& parts) {
  const bool automatic = parts.module->automatic_optimization();
  parts.optimizers.clear();
  parts.schedulers.clear();
  for (const OptimizerSetup& setup : setups.list()) {
    if (!setup.optimizer) throw MisuseError("configure_optimizers returned an empty optimizer.");
    keep_distinct(*setup.optimizer, parts.optimizers.size(), *parts.module);
    parts.optimizers.push_back(setup.optimizer);
    for (const SchedulerConfig& config : setup.schedulers) {
      check(config, automatic);
      check_optimizer_of(*config.scheduler, setups);
      parts.schedulers.push_back(config);
    }
  }
  if (automatic && parts.optimizers.size() > 1) {
    throw MisuseError(
        format("configure_optimizers returned {} optimizers, which need manual optimization: call "
               "set_automatic_optimization(false) in the module's constructor and step them in training_step.",
               parts.optimizers.size()));
  }
  if (!automatic && options.accumulate_grad_batches != 1) {
    throw MisuseError(
        "accumulate_grad_batches works with automatic optimization only; else call step_optimizer every so many batches.");
  }
  if (!automatic && options.gradient_clip_val.value_or(0) > 0) {
    throw MisuseError(
        "gradient_clip_val works with automatic optimization only; under manual optimization call clip_gradients.");
  }
  if (parts.optimizers.empty()) {
    rank_zero_warn("configure_optimizers returned no optimizer: training runs without changing the weights.");
  }
}

void warn_of_unreached_schedules(const RunParts& parts, const TrainingLength& length) {
  if (!parts.module->automatic_optimization()) return;
  for (const SchedulerConfig& config : parts.schedulers) {
    const Value state = config.scheduler->state_dict();
    const auto end = state.is_map() ? furthest(state) : std::nullopt;
    const auto steps = end ? length.schedule_steps(config.interval, config.frequency) : std::nullopt;
    if (!steps || *steps <= 0) continue;
    const LrScheduler& scheduler = *config.scheduler;
    const std::string name = class_name_of(typeid(scheduler));
    const bool ends_for_good = end->first == "total_steps" || end->first.starts_with("epochs");
    if (ends_for_good && end->second < *steps) {
      rank_zero_warn(
          format("{} ends before training does, and a step after that is an error: its {} is {}, and training has {} of its "
                 "steps, one after every {}. Set it to {}.",
                 name, end->first, end->second, *steps, interval_text(config), *steps));
    }
    if (end->second <= *steps) continue;
    const bool by_epochs = config.interval == Interval::kEpoch;
    const auto by_step = length.schedule_steps(Interval::kStep, config.frequency);
    const bool means_steps = by_epochs && by_step && end->second <= *by_step;
    rank_zero_warn(
        format("{} will not reach its end: its {} is {}, and training has {} of its steps, one after every {}. {}.", name,
               end->first, end->second, *steps, interval_text(config),
               means_steps ? "Set the scheduler's interval to step" : format("Train longer, or set it to {} at most", *steps)));
  }
}

ScheduleWatch::ScheduleWatch(const RunParts& parts) {
  if (parts.module->automatic_optimization()) return;
  for (const SchedulerConfig& config : parts.schedulers) states_.push_back(config.scheduler->state_dict());
}

void ScheduleWatch::warn_of_unstepped(const RunParts& parts) const {
  if (states_.size() != parts.schedulers.size()) return;
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const LrScheduler& scheduler = *parts.schedulers[index].scheduler;
    // A class without a state shows nothing.
    if (!states_[index].is_map() || scheduler.state_dict() != states_[index]) continue;
    rank_zero_warn(
        format("{} was not stepped in this fit, so it has changed no learning rate of {}. With manual optimization call "
               "lr_scheduler({}).step(), in training_step or on_train_epoch_end.",
               class_name_of(typeid(scheduler)), optimizer_class_name(scheduler.optimizer()), index));
  }
}

bool SchedulerRunner::is_due(const SchedulerConfig& config, Interval interval, bool on_metric) const {
  const std::int64_t done = (interval == Interval::kStep ? progress_.batch.batch_idx : progress_.epoch) + 1;
  return parts_.module->automatic_optimization() && config.scheduler->needs_metric() == on_metric &&
         config.interval == interval && done % config.frequency == 0;
}

bool SchedulerRunner::is_due(Interval interval, bool on_metric) const {
  return std::ranges::any_of(parts_.schedulers,
                             [&](const SchedulerConfig& config) { return is_due(config, interval, on_metric); });
}

void SchedulerRunner::warn_of_monitors(const RunParts& parts, const MetricStore& metrics) {
  if (!parts.module->automatic_optimization()) return;
  for (const SchedulerConfig& config : parts.schedulers) {
    if (!config.scheduler->needs_metric() || metrics.monitored(config.monitor)) continue;
    const std::string warning =
        warning_of_monitor("A learning-rate scheduler", config.monitor, metrics.callback_metrics().names());
    if (!warning.empty()) Console::instance().warn_once(warning, {}, Speaker::kRun);
  }
}

void SchedulerRunner::step(Interval interval, bool on_metric) {
  for (SchedulerConfig& config : parts_.schedulers) {
    if (!is_due(config, interval, on_metric)) continue;
    std::optional<double> metric;
    if (on_metric) {
      metric = metrics_.monitored(config.monitor);
      if (!metric) {
        const std::string message = missing_monitor(config, metrics_.callback_metrics());
        if (config.strict) {
          throw of_all_ranks(MisuseError(message + " Set the scheduler's strict to false to skip it until the key exists."));
        }
        rank_zero_warn(message + " The learning rate stays unchanged.");
        continue;
      }
    }
    hooks_.module(Hook::kLrSchedulerStep, &Module::lr_scheduler_step, *config.scheduler, metric);
  }
}

}  // namespace levin
