#include "levin/core/trainer_options.h"

#include <algorithm>
#include <limits>

#include "levin/core/base/format.h"

namespace levin {
namespace {

/// The name without namespaces. Does not make an object.
std::string class_of(const Component<Callback>& callback) {
  if (!callback.empty() && callback.class_path().is_null()) return callback.get()->class_name();
  const std::string& name = callback.class_path().as_string();
  return name.substr(name.find_last_of(".:") + 1);
}

/// The class of the first callback that is `wanted`; "" when there is none.
std::string first_class(const TrainerOptions& options, const std::function<bool(const Component<Callback>&)>& wanted) {
  const auto first = std::ranges::find_if(options.callbacks, wanted);
  return first == options.callbacks.end() ? "" : class_of(*first);
}

bool takes_any(const Limit& limit) { return limit.is_share() ? limit.share() > 0 : limit.batches() > 0; }

/// Refuses a flag that is false together with a callback that it disables.
void declare_contradiction(OptionList<TrainerOptions>& options, const std::string& flag,
                           std::optional<bool> TrainerOptions::*value, const std::string& callback_class) {
  options.rule({flag, "callbacks"}, [=](const TrainerOptions& trainer) -> std::string {
    const auto is_it = [&](const Component<Callback>& callback) { return class_of(callback) == callback_class; };
    if (trainer.*value != false || first_class(trainer, is_it).empty()) return "";
    return format("{} is false, but callbacks hold a {}; remove one of the two", flag, callback_class);
  });
}

void declare_rules(OptionList<TrainerOptions>& options) {
  using T = TrainerOptions;
  options.rule({"min_epochs", "max_epochs"}, [](const T& trainer) {
    const std::int64_t most = trainer.max_epochs.value_or(-1);
    return most >= 0 && trainer.min_epochs.value_or(0) > most ? "min_epochs is above max_epochs" : "";
  });
  options.rule({"min_steps", "max_steps"}, [](const T& trainer) {
    return trainer.max_steps >= 0 && trainer.min_steps.value_or(0) > trainer.max_steps ? "min_steps is above max_steps" : "";
  });
  options.rule({"strategy"},
               [](const T& trainer) { return trainer.strategy.empty() ? "strategy is empty; use auto, or leave it out" : ""; });
  options.rule({"accelerator"}, [](const T& trainer) {
    return trainer.accelerator.empty() ? "accelerator is empty; use auto, or leave it out" : "";
  });
  options.rule({"val_check_interval", "check_val_every_n_epoch"}, [](const T& trainer) {
    const auto& interval = trainer.val_check_interval;
    const bool share = interval && !interval->is_time() && interval->limit().is_share();
    return share && !trainer.check_val_every_n_epoch
               ? "check_val_every_n_epoch: null counts training batches across epochs, so val_check_interval must be a number "
                 "of batches (an int), not a share of an epoch"
               : "";
  });
  options.rule({"val_check_interval"}, [](const T& trainer) {
    const auto& interval = trainer.val_check_interval;
    // A time of 0 has passed after each batch.
    const bool is_nothing = interval && (interval->is_time() ? interval->time().count() < 0 : !takes_any(interval->limit()));
    return is_nothing
               ? "val_check_interval is 0: limit_val_batches: 0 never validates, and val_check_interval: 1 validates after "
                 "each batch"
               : "";
  });
  options.rule({"min_devices", "max_restarts"}, [](const T& trainer) {
    return trainer.min_devices && trainer.max_restarts == 0 ? "min_devices is for restarts: set max_restarts too" : "";
  });
  options.rule({"min_devices", "num_nodes"}, [](const T& trainer) {
    return trainer.min_devices && trainer.num_nodes > 1
               ? "min_devices works on one host only: all hosts must have the same number of ranks"
               : "";
  });
  const std::vector<std::pair<std::string, bool (*)(const T&)>> not_for_barebones = {
      {"enable_checkpointing", [](const T& trainer) { return trainer.enable_checkpointing == true; }},
      {"enable_progress_bar", [](const T& trainer) { return trainer.enable_progress_bar == true; }},
      {"enable_model_summary", [](const T& trainer) { return trainer.enable_model_summary == true; }},
      {"num_sanity_val_steps", [](const T& trainer) { return trainer.num_sanity_val_steps.value_or(0) != 0; }},
      {"validate_before_training", [](const T& trainer) { return trainer.validate_before_training; }},
      {"log_every_n_steps", [](const T& trainer) { return trainer.log_every_n_steps.value_or(0) != 0; }},
      {"profiler", [](const T& trainer) { return !trainer.profiler.empty(); }},
      {"logger", [](const T& trainer) { return trainer.logger.is_asked_for(); }}};
  for (const auto& [name, is_given] : not_for_barebones) {
    options.rule({name}, [name = name, is_given = is_given](const T& trainer) -> std::string {
      return trainer.barebones && is_given(trainer) ? "barebones: true excludes " + name : "";
    });
  }
  declare_contradiction(options, "enable_progress_bar", &T::enable_progress_bar, "ProgressBar");
  declare_contradiction(options, "enable_prediction_writer", &T::enable_prediction_writer, "PredictionWriter");
  options.rule({"enable_checkpointing", "callbacks"}, [](const T& trainer) -> std::string {
    // fast_dev_run and barebones disable checkpoints without requiring the callback's removal from YAML.
    if (trainer.enable_checkpointing != false || trainer.fast_dev_run || trainer.barebones) return "";
    // Only an object can say it: a user's class may save, too.
    const std::string saves =
        first_class(trainer, [](const Component<Callback>& callback) { return callback.get()->saves_state(); });
    return saves.empty() ? "" : format("enable_checkpointing is false, but callbacks hold {}; remove one of the two", saves);
  });
}

}  // namespace

void ProcessOptions::declare(OptionList<ProcessOptions>& options) {
  options.add("signals", &ProcessOptions::signals,
              "SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the run at the same step on all ranks");
  options.add("crash_reports", &ProcessOptions::crash_reports, "On a crash, or exit() inside a run, print the hook and step");
  options.add("memory", &ProcessOptions::memory, "Reuse the memory of CPU tensors in the next step");
  options.add("requeue_signals", &ProcessOptions::requeue_signals,
              "Signals on which a Slurm job saves a checkpoint and is requeued; []: none");
}

void TrainerOptions::declare(OptionList<TrainerOptions>& options) {
  using T = TrainerOptions;
  constexpr int kMostInt = std::numeric_limits<int>::max();
  const auto at_least = [&](double least, const char* name, auto member, const char* help) {
    return options.add(name, member, help).min(least);
  };
  at_least(-1, "max_epochs", &T::max_epochs, "Stop after this many epochs; -1: no limit. Unset without another limit: 1000");
  at_least(-1, "min_epochs", &T::min_epochs, "Train at least this many epochs; -1: no limit");
  at_least(-1, "max_steps", &T::max_steps, "Stop after this many optimizer steps; -1: no limit");
  at_least(-1, "min_steps", &T::min_steps, "Train at least this many optimizer steps; -1: no limit");
  options.add("max_time", &T::max_time, "Stop after this time: DD:HH:MM:SS, or a map such as {hours: 2, minutes: 30}");

  options.add("accelerator", &T::accelerator, "Kind of device; --help accelerators lists them");
  options.add("strategy", &T::strategy, "How ranks work together; --help strategies lists the ways");
  options.add("devices", &T::devices,
              "auto (all GPUs, or one rank on the CPU), a count, -1 for all, or indices such as \"0,3\"");
  at_least(1, "num_nodes", &T::num_nodes, "Number of hosts").max(kMostInt);
  at_least(0, "max_restarts", &T::max_restarts,
           "After a failure, restart all ranks from the run's newest checkpoint, at most this many times")
      .max(kMostInt);
  at_least(1, "min_devices", &T::min_devices,
           "With max_restarts: restart with fewer ranks when devices are lost, at least with this many. Unset: only with all")
      .max(kMostInt)
      .instead("null restarts only with all ranks");
  at_least(1, "threads", &T::threads, "CPU threads of each rank. Unset: OMP_NUM_THREADS, or else the cores divided by ranks")
      .max(4096)
      .instead("null takes OMP_NUM_THREADS, or else the cores");
  options.add("precision", &T::precision, "Number format of weights and computation");

  options.add("logger", &T::logger, "true: a CSVLogger; false: none; or one or several loggers");
  options.add("callbacks", &T::callbacks, "Callbacks, in the order in which their hooks run");

  at_least(0, "fast_dev_run", &T::fast_dev_run, "Run this many batches of each stage, without loggers and checkpoints; 0: off")
      .instead("true runs one batch of each stage, false all");
  options.add("limit_train_batches", &T::limit_train_batches,
              "Training batches per epoch: a number (int) or a share (float); 0: none");
  options.add("limit_val_batches", &T::limit_val_batches, "Validation batches: a number (int) or a share (float); 0: none");
  options.add("limit_test_batches", &T::limit_test_batches, "Test batches: a number (int) or a share (float); 0: none");
  options.add("limit_predict_batches", &T::limit_predict_batches,
              "Prediction batches: a number (int) or a share (float); 0: none");
  options.add(
      "overfit_batches", &T::overfit_batches,
      "Train and validate on only the first batches of each loader, in order: a number (int) or a share (float); 0: on all");
  options.add("val_check_interval", &T::val_check_interval,
              "Validate every so many batches (int), after each share of an epoch (float), or after a time since the last "
              "validation (DD:HH:MM:SS)");
  at_least(1, "check_val_every_n_epoch", &T::check_val_every_n_epoch,
           "Validate every so many epochs; null: val_check_interval counts batches across epochs")
      .instead("limit_val_batches: 0 never validates");
  at_least(-1, "num_sanity_val_steps", &T::num_sanity_val_steps,
           "Validation batches of the sanity check before training; 0: none, -1: all. Unset: 2");
  options.add("validate_before_training", &T::validate_before_training,
              "Validate before the first epoch, with rows, instead of the sanity check");
  at_least(0, "log_every_n_steps", &T::log_every_n_steps, "Write step metrics every so many steps; 0: never. Unset: 50")
      .instead("0 never writes them");
  options.add("strict_logging", &T::strict_logging, "A key that only some ranks logged is an error");

  options.add("enable_checkpointing", &T::enable_checkpointing, "Add a ModelCheckpoint when there is none. Unset: true");
  options.add("enable_progress_bar", &T::enable_progress_bar, "Show progress. Unset: true");
  options.add("progress", &T::progress,
              "How to show progress: live (curves, figures and keys on a terminal), bar, or lines; auto: the first that the "
              "output supports");
  options.add("enable_model_summary", &T::enable_model_summary, "Print a table of the model. Unset: true");
  options.add("enable_prediction_writer", &T::enable_prediction_writer,
              "Add a PredictionWriter to predict when there is none. Unset: true for `levin predict`, false in C++");

  at_least(1, "accumulate_grad_batches", &T::accumulate_grad_batches, "Batches per optimizer step")
      .instead("1 steps after each batch");
  at_least(0, "gradient_clip_val", &T::gradient_clip_val, "Clip gradients to this norm or value; 0 or null: off")
      .instead("0 or null clips nothing");
  options.add("gradient_clip_algorithm", &T::gradient_clip_algorithm, "Clip the norm of all gradients, or each value");
  options.add("deterministic", &T::deterministic, "Use only deterministic algorithms; warn: warn where there is none");
  options.add("benchmark", &T::benchmark, "Let cuDNN measure which algorithm is fastest. Unset: false with deterministic");
  options.add("float32_matmul_precision", &T::float32_matmul_precision,
              "Precision of 32-bit matrix products: lower is faster on some devices");
  options.add("inference_mode", &T::inference_mode, "Evaluate in inference mode instead of no-grad mode");
  options.add("use_distributed_sampler", &T::use_distributed_sampler, "Divide data over ranks");
  options.add("uneven", &T::uneven, "Training samples that do not divide over ranks: repeat some, leave some out, or keep all");
  options.add(
      "allow_same_batches", &T::allow_same_batches,
      "Allow all ranks to start with the same training batch. Else an error, because they would train on the same samples");
  options.add("on_nan", &T::on_nan, "When a loss or gradient is NaN or infinite: warn once, end the run, or skip the step");
  options.add("cuda_graph", &T::cuda_graph,
              "Record training steps as CUDA graphs: never, or auto: if replaying gives the same result");
  options.add(
      "channels_last", &T::channels_last,
      "Use channels-last memory format for weights and inputs of four dimensions, which makes many convolutions faster");
  options.add("detect_anomaly", &T::detect_anomaly, "Find the operation that made a gradient NaN (slow)");
  options.add("profiler", &T::profiler, "Measure where time is spent: simple, torch, nvtx, or your own class");
  options.add("barebones", &T::barebones, "Run only the loop: no logging, bar, summary, checkpoints, sanity check");
  options.add(
      "quiet", &T::quiet,
      "Disable progress bar, summary, logger and checkpoints that are not set explicitly; show only warnings and errors");
  options.add("sync_batchnorm", &T::sync_batchnorm, "Compute the statistics of BatchNorm layers over all ranks");
  at_least(0, "reload_dataloaders_every_n_epochs", &T::reload_dataloaders_every_n_epochs,
           "Make loaders again after this many epochs; 0: never")
      .instead("0 never reloads them");
  options.add("default_root_dir", &T::default_root_dir, "Folder for all output. Unset: the current folder");
  options.add("enable_autolog_hparams", &T::enable_autolog_hparams, "Write hyper-parameters to the loggers");

  options.add("process", &T::process,
              "Process-wide settings that a run changes. Unset members: true, but false in a C++ program that embeds levin");
  options.add("log_level", &T::log_level, "Show console lines from this level on");
  options.add("log_file", &T::log_file,
              "Also write the console's lines to this file, one for each rank: {rank} becomes the rank");
  at_least(0.1, "connect_timeout_seconds", &T::connect_timeout_seconds,
           "Ranks that have not found one another after this time end with an error that names the missing ones");
  at_least(0, "stall_report_seconds", &T::stall_report_seconds,
           "A longer wait for other ranks prints where each rank is; 0: never")
      .instead("0 never prints it");
  at_least(1, "timeout_seconds", &T::timeout_seconds,
           "A longer wait for other ranks, or for writing a checkpoint, ends the run")
      .instead("every wait has a limit; 604800 is a week");
  declare_rules(options);
}

}  // namespace levin
