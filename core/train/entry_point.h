#pragma once

#include <functional>

#include "levin/core/base/error.h"
#include "levin/core/diagnostics/crash_report.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/run/signal_scope.h"
#include "levin/core/state/fit_continuation.h"
#include "levin/core/step/precision.h"
#include "levin/core/train/fit_loop.h"
#include "levin/core/train/run_data.h"

namespace c10 {
class Error;
}

namespace levin {

/// The part that fit, validate, test and predict share: all before and after the loop, in Lightning's order, and the handling
/// of errors. Teardown hooks always run.
///
/// Threading: for one thread at a time, within its ThreadOfRun.
class EntryPoint {
 public:
  /// `stage`: kTrain for fit.
  EntryPoint(TrainerState& run, Module& module, DataSource source, Stage stage, const RunOptions& options);
  ~EntryPoint();
  EntryPoint(const EntryPoint&) = delete;
  EntryPoint& operator=(const EntryPoint&) = delete;

  /// Ranks: all. Runs `loop` between set-up and teardown: begin(), step() and end() in one.
  void run(const std::function<void()>& loop);
  /// Ranks: all. The set-up. After an error of this, of step() or end(), the run has been torn down.
  void begin();
  /// A part of the run's work, such as a loop.
  void step(const std::function<void()>& work);
  /// Ranks: all. The end and teardown.
  void end();
  /// The same for a trial of a TrialRunner, within a fit, which does everything that is done once. Weights and the data
  /// module's state are restored whether the trial succeeds or fails.
  void run_trial(const std::function<void()>& loop);

  const PrecisionPolicy& precision() const { return *precision_; }
  DataSource& source() { return source_; }
  const ResumePoint& resume_point() const { return resume_; }

 private:
  /// Runs a part of the run. An error tears the run down, and says where it happened.
  void guard(const std::function<void()>& part);
  void begin_progress();
  void make_precision();
  void tune();
  void set_up();
  void prepare_data();
  void open_loggers();
  void announce_how_to_resume() const;
  void load_checkpoint();
  void load_initial_weights();
  void require_training(TensorFileKind kind) const;
  void announce_lightning() const;
  /// Compares options of the module and the data, except paths: other values may change the numbers.
  void warn_of_other_options() const;
  /// Adds the checkpoint's file to errors of a step that loads it.
  void name_file_in_errors(const std::function<void()>& step) const;
  void set_up_parts();
  void set_up_module();
  void configure_optimizers();
  void log_hyperparams();
  void finish();
  void throw_if_signalled(const std::string& when) const;
  /// Adds to an error of LibTorch which batch was being processed, and a hint.
  void explain(c10::Error& error) const;
  void fail(const std::exception& error, const std::string& status);
  void tear_down_hooks();
  /// Called: before loaders are requested. Ranks: all.
  void agree_on_data_seed();
  bool fitting() const { return stage_ == Stage::kTrain; }

  TrainerState& run_;
  DataSource source_;
  Stage stage_;
  RunOptions options_;
  std::optional<SignalScope> signals_;
  std::optional<CrashReport> crash_report_;
  std::optional<PrecisionPolicy> precision_;
  std::filesystem::path checkpoint_file_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  ResumePoint resume_;
  FitContinuation continuation_{run_};
  bool set_up_parts_done_ = false;
  bool set_up_done_ = false;
  bool loggers_final_ = false;
  bool profiler_ended_ = false;
};

}  // namespace levin
