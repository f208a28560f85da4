#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/component.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/console/console.h"
#include "levin/core/logger.h"
#include "levin/core/profiler.h"

namespace levin {

/// A signal on which a batch job is requeued.
enum class RequeueSignal : int { kUsr1 = SIGUSR1, kUsr2 = SIGUSR2, kHup = SIGHUP, kTerm = SIGTERM };
template <>
inline constexpr std::array kChoices<RequeueSignal> = {
    Choice{RequeueSignal::kUsr1, "SIGUSR1"}, Choice{RequeueSignal::kUsr2, "SIGUSR2"}, Choice{RequeueSignal::kHup, "SIGHUP"},
    Choice{RequeueSignal::kTerm, "SIGTERM"}};

/// The process-wide settings that levin changes while an entry point runs. Unset: all in levin's own processes (the `levin`
/// program, run_main(), ranks that levin has started), none in a program that embeds levin. See docs/embedding.md.
struct LEVIN_API ProcessOptions {
  /// SIGINT, SIGTERM, SIGHUP and SIGUSR1, unless the program ignores or handles them, end the run on all ranks at one step
  /// (Interrupted).
  std::optional<bool> signals = std::nullopt;
  /// A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and so std::terminate) prints its hook and step on standard error,
  /// unless the program handles the signal; so does exit() inside a run, whose status is then not 0.
  std::optional<bool> crash_reports = std::nullopt;
  /// glibc's malloc reuses the memory of a step for the next; M_MMAP_THRESHOLD and M_TRIM_THRESHOLD stay changed afterwards.
  std::optional<bool> memory = std::nullopt;
  /// With `signals`: on these signals a Slurm job saves a checkpoint and is requeued; runs outside of a job end. Empty: never.
  std::vector<RequeueSignal> requeue_signals = {RequeueSignal::kUsr1};

  bool requeues_on(int signal) const {
    return std::ranges::any_of(requeue_signals, [&](RequeueSignal one) { return static_cast<int>(one) == signal; });
  }

  static void declare(OptionList<ProcessOptions>& options);
};

/// The Trainer's flags, with Lightning's names and defaults. The order is that of designated initializers.
struct LEVIN_API TrainerOptions {
  std::optional<std::int64_t> max_epochs = std::nullopt;  ///< unset: 1000 without another limit; -1: no limit
  std::optional<std::int64_t> min_epochs = std::nullopt;
  std::int64_t max_steps = -1;  ///< optimizer steps; -1: no limit
  std::optional<std::int64_t> min_steps = std::nullopt;
  std::optional<Duration> max_time = std::nullopt;  ///< in YAML "DD:HH:MM:SS"

  Component<Accelerator> accelerator = "auto";
  Component<Strategy> strategy = "auto";
  Devices devices = {};
  std::int64_t num_nodes = 1;
  std::int64_t max_restarts = 0;                           ///< after a failure levin's launcher starts all ranks again
  std::optional<std::int64_t> min_devices = std::nullopt;  ///< a restart may use fewer devices, at least so many; unset: all
  std::optional<std::int64_t> threads = std::nullopt;      ///< of each rank, on the CPU; unset: OMP_NUM_THREADS, else the cores
  PrecisionFormat precision = PrecisionFormat::kFloat32;

  Loggers logger = {};
  std::vector<Component<Callback>> callbacks = {};

  FastDevRun fast_dev_run = false;  ///< true or a number of batches of each stage
  std::optional<Limit> limit_train_batches = std::nullopt;
  std::optional<Limit> limit_val_batches = std::nullopt;
  std::optional<Limit> limit_test_batches = std::nullopt;
  std::optional<Limit> limit_predict_batches = std::nullopt;
  Limit overfit_batches = 0.0;
  std::optional<CheckInterval> val_check_interval = std::nullopt;
  std::optional<std::int64_t> check_val_every_n_epoch = 1;
  std::optional<std::int64_t> num_sanity_val_steps = std::nullopt;
  bool validate_before_training = false;  ///< a full validation before the first epoch, with rows, instead of the sanity check
  std::optional<std::int64_t> log_every_n_steps = std::nullopt;
  bool strict_logging = false;

  std::optional<bool> enable_checkpointing = std::nullopt;
  std::optional<bool> enable_progress_bar = std::nullopt;
  ProgressView progress = ProgressView::kAuto;
  std::optional<bool> enable_model_summary = std::nullopt;
  std::optional<bool> enable_prediction_writer = std::nullopt;

  std::int64_t accumulate_grad_batches = 1;
  std::optional<double> gradient_clip_val = std::nullopt;
  GradientClipAlgorithm gradient_clip_algorithm = GradientClipAlgorithm::kNorm;
  Deterministic deterministic = false;
  std::optional<bool> benchmark = std::nullopt;  ///< cuDNN measures which algorithm is fastest; unset: as LibTorch is set
  std::optional<MatmulPrecision> float32_matmul_precision = std::nullopt;  ///< unset: as LibTorch is set
  bool inference_mode = true;
  bool use_distributed_sampler = true;
  Uneven uneven = Uneven::kPad;     ///< training samples that do not divide over ranks
  bool allow_same_batches = false;  ///< all ranks may begin with the same training batch
  OnNan on_nan = OnNan::kWarn;      ///< when a loss, a gradient or a logged metric is NaN or infinite
  bool detect_anomaly = false;
  CudaGraph cuda_graph = CudaGraph::kNever;  ///< GPUs record training steps and replay them if that gives the same result
  bool channels_last = false;                ///< weights and inputs of four dimensions in channels-last memory format
  Component<Profiler> profiler = {};         ///< "simple", "torch" or your own class; none: no measurement
  bool barebones = false;
  bool quiet = false;           ///< only explicitly set bar, summary, logger and checkpoints; only warnings and errors
  bool sync_batchnorm = false;  ///< BatchNorm layers compute a batch's statistics over all ranks
  std::int64_t reload_dataloaders_every_n_epochs = 0;
  std::optional<std::filesystem::path> default_root_dir = std::nullopt;
  bool enable_autolog_hparams = true;

  ProcessOptions process = {};           ///< process-wide settings for the run
  LogLevel log_level = LogLevel::kInfo;  ///< least level of lines on the console
  /// Also write the console's lines there, with time and level, in one file for each rank: `{rank}` in the name becomes the
  /// rank (without it, `.rank_{rank}` is added before the extension when there are several ranks).
  std::optional<std::filesystem::path> log_file = std::nullopt;
  double connect_timeout_seconds = 300;  ///< for ranks to find one another when a run starts
  double stall_report_seconds = 60;      ///< a longer wait at a boundary prints where each rank is; 0: never
  double timeout_seconds = 1800;         ///< a longer wait ends the run

  /// log_every_n_steps, or its value when unset; 0: no step values are written.
  std::int64_t step_row_interval() const { return log_every_n_steps.value_or(50); }

  static void declare(OptionList<TrainerOptions>& options);
};

}  // namespace levin
