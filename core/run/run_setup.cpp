#include "levin/core/run/run_setup.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <typeinfo>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/signal_handlers.h"
#include "levin/core/base/text.h"
#include "levin/core/config/build_info.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/module.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/random/seed.h"
#include "levin/core/run/epoch_plan.h"

namespace levin {

Value hyperparams_of(const RunParts& parts) {
  const auto map_of = [](const Value& hparams) { return hparams.is_map() ? masked(hparams) : Value(Value::Map{}); };
  return Value(Value::Map{{"model", map_of(parts.module->hparams())},
                          {"data", map_of(parts.data == nullptr ? Value() : parts.data->hparams())}});
}

namespace {

void apply_fast_dev_run(TrainerOptions& options) {
  const std::int64_t batches = options.fast_dev_run.batches();
  options.max_epochs = 1;
  options.max_steps = batches;
  options.num_sanity_val_steps = 0;
  options.val_check_interval = Limit(1.0);
  options.check_val_every_n_epoch = 1;
  options.limit_train_batches = options.limit_val_batches = Limit(batches);
  options.limit_test_batches = options.limit_predict_batches = Limit(batches);
  options.logger = Loggers(false);
  options.enable_checkpointing = options.enable_prediction_writer = false;
}

void apply_barebones(TrainerOptions& options) {
  options.enable_checkpointing = options.enable_progress_bar = options.enable_model_summary = false;
  options.enable_prediction_writer = false;
  options.num_sanity_val_steps = 0;
  options.log_every_n_steps = 0;
  options.logger = Loggers(false);
}

bool same_class(const Callback& one, const Callback& other) { return typeid(one) == typeid(other); }

[[noreturn]] void throw_shared_key(const std::string& key, const Callback& first, const Callback& second) {
  throw ConfigError(
      format("trainer: callbacks: two callbacks have the same state_key(), {}{}: they would write the same files, or load each "
             "other's state. Remove one, or give them different options (ModelCheckpoint: monitor, mode, or how often it "
             "saves); override state_key() in your own class.",
             key,
             same_class(first, second)
                 ? ""
                 : format(" ({} and {})", full_class_name_of(typeid(first)), full_class_name_of(typeid(second)))));
}

TrainerOptions apply_option_rules(TrainerOptions options) {
  options = checked("Trainer", std::move(options));
  if (options.barebones) apply_barebones(options);
  if (options.fast_dev_run) apply_fast_dev_run(options);
  if (takes_batches(options.overfit_batches)) {
    options.limit_train_batches = options.limit_val_batches = options.overfit_batches;
  }
  if (options.default_root_dir) options.default_root_dir = expand_home(*options.default_root_dir);
  const bool ends_otherwise = options.max_steps != -1 || options.max_time;
  if (!options.max_epochs) options.max_epochs = ends_otherwise ? -1 : 1000;
  if (!options.min_epochs && options.min_steps) options.min_epochs = 1;
  return options;
}

/// Launched: from here on this process is one rank of the run.
std::shared_ptr<Strategy> make_strategy(const TrainerOptions& options, const Strategy* in_use) {
  std::shared_ptr<Strategy> strategy = options.strategy.get();
  if (in_use != nullptr && strategy.get() == in_use) return strategy;
  LaunchRequest request{.accelerator = options.accelerator,
                        .devices = options.devices,
                        .num_nodes = static_cast<int>(options.num_nodes),
                        .max_restarts = static_cast<int>(options.max_restarts),
                        .min_devices = options.min_devices,
                        .connect_timeout_seconds = options.connect_timeout_seconds,
                        .stall_report_seconds = options.stall_report_seconds,
                        .timeout_seconds = options.timeout_seconds};
  if (std::shared_ptr<Strategy> resolved = strategy->resolve(request)) strategy = std::move(resolved);
  strategy->launch(request);
  use_device_generator(strategy->accelerator().generator(strategy->device()), global_seed());
  return strategy;
}

std::vector<std::shared_ptr<Logger>> make_loggers(const TrainerOptions& options) {
  std::vector<std::shared_ptr<Logger>> loggers;
  const bool is_default = options.logger.is_default();
  if (is_default && (!options.quiet || options.logger.is_asked_for()))
    return {Registry<Logger>::instance().make("CSVLogger", Value::Map{})};
  if (is_default || !options.logger.enabled()) return loggers;
  for (const Component<Logger>& logger : options.logger.list()) loggers.push_back(logger.get());
  return loggers;
}

CallbackList make_callbacks(const TrainerOptions& options) {
  CallbackList callbacks;
  for (const Component<Callback>& callback : options.callbacks) callbacks.push_back(callback.get());
  const auto add = [&](const char* name, bool is_wanted, const Value& init_args = Value(Value::Map{})) {
    const auto is_it = [&](const auto& callback) { return callback->class_name() == name; };
    if (!is_wanted || std::ranges::any_of(callbacks, is_it)) return false;
    callbacks.push_back(Registry<Callback>::instance().make(name, init_args));
    return true;
  };
  if (options.max_time && !add("Timer", true, Value::Map{{"duration", OptionType<Duration>::write(*options.max_time)}})) {
    rank_zero_warn("max_time has no effect, because the callbacks hold a Timer, which ends training after its own duration.");
  }
  add("ProgressBar", options.enable_progress_bar.value_or(!options.quiet));
  add("ModelSummary", options.enable_model_summary.value_or(!options.quiet));
  add("PredictionWriter", options.enable_prediction_writer.value_or(false));
  const bool saves = std::ranges::any_of(callbacks, &Callback::saves_state);
  add("ModelCheckpoint", options.enable_checkpointing.value_or(!options.quiet) && !saves);
  return callbacks;
}

void announce_build(const Strategy& strategy) {
  static std::once_flag once;
  std::call_once(once, [&] {
    const int restarts = strategy.ranks().restarts();
    rank_zero_info(build_info(), ", ranks: ", strategy.world_size(), " (", strategy.description(), ")",
                   restarts == 0 ? "" : format(", attempt {}", restarts + 1));
  });
}

void warn_of_few_cores(const Strategy& strategy) {
  const int ranks = strategy.ranks().ranks_of_host();
  const int cores = strategy.ranks().cores_of_host();
  if (!strategy.device().is_cpu() || ranks <= cores) return;
  rank_zero_warn(format("trainer.devices: {} ranks share {}, and wait for one another: {} would be as fast or faster.", ranks,
                        counted(static_cast<std::size_t>(cores), "core"), cores));
}

void make_objects(RunSetup& setup) {
  const TrainerOptions& options = setup.options;
  configure_console(setup);
  // Before the first line: the reader of a pipe may leave after it, as head does.
  if (OwnProcess::is_one()) ignore_broken_pipes();
  // A Trainer that a hook makes, such as for a trial, is a part of the hook's run.
  if (!PlaceOfThread::now()) Console::instance().begin_run();
  announce_build(*setup.strategy);
  warn_of_few_cores(*setup.strategy);
  if (options.fast_dev_run) {
    rank_zero_info("fast_dev_run: ", options.fast_dev_run.batches(),
                   " batch(es) of each stage, without loggers and checkpoints, to see whether everything works.");
  }
  if (options.val_check_interval && !options.val_check_interval->is_time() &&
      options.val_check_interval->limit() == Limit(std::int64_t{1})) {
    rank_zero_info("val_check_interval: 1 validates after each training batch; 1.0 does so at the end of each epoch.");
  }
  setup.loggers = make_loggers(options);
  setup.callbacks = make_callbacks(options);
  setup.profiler = options.profiler.get();
}

}  // namespace

RunSetup::RunSetup(TrainerOptions given, const Strategy* in_use)
    : limits_given(given.max_epochs || given.max_steps >= 0 || given.max_time || given.fast_dev_run),
      options(apply_option_rules(std::move(given))),
      strategy(make_strategy(options, in_use)) {
  try {
    make_objects(*this);
  } catch (const std::exception& error) {
    strategy->report_failure({Stage::kTrain, Hook::kNone, -1, -1}, std::current_exception());
    if (const auto consequence = strategy->failure_elsewhere()) throw DesyncError(*consequence, exit_code_of(error));
    throw;
  }
}

void configure_console(const RunSetup& setup) {
  const TrainerOptions& options = setup.options;
  Console::instance().configure({.level = options.quiet ? std::max(options.log_level, LogLevel::kWarning) : options.log_level,
                                 .rank = setup.strategy->rank(),
                                 .world_size = setup.world_size(),
                                 .log_file = options.log_file});
}

CallbackList in_hook_order(CallbackList callbacks) {
  std::stable_partition(callbacks.begin(), callbacks.end(), [](const auto& callback) { return !callback->saves_state(); });
  return callbacks;
}

CallbackList merge_callbacks(CallbackList own, const CallbackList& of_module) {
  for (const auto& callback : of_module) {
    if (!callback) throw MisuseError("configure_callbacks returned an empty callback.");
    const Callback& added = *callback;
    std::erase_if(own, [&](const auto& other) { return same_class(*other, added); });
  }
  own.insert(own.end(), of_module.begin(), of_module.end());
  return own;
}

void RunSetup::end_loggers(RunOutcome outcome, const Caller& call) const {
  // A rank that learned of the signal from another may get its own only now.
  if (outcome.status == "interrupted") HeededSignals::settle();
  for (std::string* text : {&outcome.failure, &outcome.stop_reason}) *text = without_secrets(*text);
  if (is_global_zero()) outcome.warnings = Console::instance().take_warnings();
  for (const auto& logger : loggers) {
    call([&] {
      if (is_global_zero()) logger->log_outcome(outcome);
      logger->finalize(outcome.status);
    });
  }
}

void check_state_keys(const CallbackList& callbacks) {
  std::map<std::string, const Callback*> known;
  for (const auto& callback : callbacks) {
    const auto [same, is_new] = known.emplace(callback->state_key(), callback.get());
    if (is_new || callback->state_dict().is_null() || same->second->state_dict().is_null()) continue;
    throw_shared_key(same->first, *same->second, *callback);
  }
}

Value states_of(const CallbackList& callbacks) {
  Value states(Value::Map{});
  std::map<std::string, const Callback*> known;
  for (const auto& callback : callbacks) {
    Value state = callback->state_dict();
    if (state.is_null()) continue;
    const auto [same, is_new] = known.emplace(callback->state_key(), callback.get());
    if (!is_new) throw_shared_key(same->first, *same->second, *callback);
    states[same->first] = std::move(state);
  }
  return states;
}

Value states_of(const std::vector<SchedulerConfig>& schedulers) {
  Value states(Value::List{});
  for (const SchedulerConfig& config : schedulers) states.push_back(config.scheduler->state_dict());
  return states;
}

}  // namespace levin
