#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/data_module.h"
#include "levin/core/profiler.h"
#include "levin/core/protocol/metrics.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer_options.h"
#include "levin/core/weights.h"

namespace levin {

struct TrainerState;
struct SchedulerConfig;

/// The options of an entry point.
struct LEVIN_API RunOptions {
  /// The checkpoint to start from: a file, also of another program (TensorFile; fit() takes only Lightning's); "best" or "last"
  /// of this Trainer's run, or else of the experiment's newest run; or of a run's folder, "logs/version_3:best",
  /// "logs/version_3:last", "logs/version_3" (the last).
  std::optional<std::string> ckpt_path = std::nullopt;
  /// Weights that fit() starts with, loaded after setup() and configure_model(); nothing else is loaded. Rank 0 reports what
  /// was loaded and, unless `strict`, what differs. Not together with ckpt_path; other entry points ignore it.
  std::optional<InitialWeights> init_from = std::nullopt;
  /// The device to which the tensors of ckpt_path and init_from are read: "cpu", "cuda:1". Empty: they are mapped into memory,
  /// and copied to the module's device.
  std::string map_location = {};
  /// The dict of weights to use, if a file of torch.save() holds several: "generator", "models.generator". For ckpt_path, and
  /// for init_from without its own key.
  std::string key = {};
  /// Print the results of validate() and test() as a table, on rank 0.
  bool verbose = true;
  /// predict() returns its predictions. False: only callbacks get them, for predictions that do not fit into memory.
  bool return_predictions = true;
  /// Makes the command that resumes from a checkpoint, which rank 0 prints when fit() fails or is interrupted; null: it prints
  /// the file.
  std::function<std::string(const std::filesystem::path& checkpoint)> resume_command = nullptr;
};

/// Where an entry point failed. Errors of levin begin with it; errors of other types cannot say it.
struct LEVIN_API Failure {
  int rank = 0;
  int world_size = 1;
  Whereabouts where;

  /// "failed in training_step (train, epoch 0, step 3)"; of several ranks "rank 1 failed in …".
  std::string place() const;
};

/// A rank's work between the last two rows of training steps, and its memory.
struct LEVIN_API RankReport {
  std::optional<double> working =
      std::nullopt;                ///< share of its steps in which it did not wait for other ranks; unset: one rank
  std::int64_t memory = 0;         ///< resident, in bytes
  std::int64_t device_memory = 0;  ///< allocated on its device, in bytes; 0: not measured
};

/// Runs a module: loops, hooks in Lightning's order, metrics, checkpoints and ranks.
///
///     levin::Trainer trainer({.max_epochs = 5, .devices = 2});
///     trainer.fit(module, data);
///
/// With several devices the constructor starts the ranks, by running this program again in new processes; the process that the
/// user started only supervises them and exits with their status. This works in the `levin` program and within run_main() and
/// launch(); elsewhere it throws MisuseError.
/// Threading: one thread for each Trainer, which runs the hooks; any thread may call stop(), clear_stop(), skip_epoch() and
/// request().
class LEVIN_API Trainer {
 public:
  explicit Trainer(TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Entry points. Ranks: all. Without loaders they use the module's. They throw errors of user code after the teardown hooks.

  void fit(Module& module, DataModule& data, const RunOptions& run = {});
  void fit(Module& module, LoaderPtr train, LoaderList validation = {}, const RunOptions& run = {});
  void fit(Module& module, const RunOptions& run = {});
  /// Returns one map of metrics for each loader.
  std::vector<MetricMap> validate(Module& module, DataModule& data, const RunOptions& run = {});
  std::vector<MetricMap> validate(Module& module, LoaderList loaders = {}, const RunOptions& run = {});
  std::vector<MetricMap> test(Module& module, DataModule& data, const RunOptions& run = {});
  std::vector<MetricMap> test(Module& module, LoaderList loaders = {}, const RunOptions& run = {});
  /// Returns, for each loader, the result of predict_step for each batch of this rank; nothing without return_predictions.
  std::vector<std::vector<Batch>> predict(Module& module, DataModule& data, const RunOptions& run = {});
  std::vector<std::vector<Batch>> predict(Module& module, LoaderList loaders = {}, const RunOptions& run = {});

  // State. Reading it never communicates, on any rank.

  const TrainerOptions& options() const;
  Stage stage() const;
  bool sanity_checking() const { return stage() == Stage::kSanityCheck; }
  /// True inside fit(), its validation and its sanity check.
  bool fitting() const;
  std::int64_t current_epoch() const;
  /// Optimizer steps taken, over all optimizers.
  std::int64_t global_step() const;
  /// Index of the current batch in its epoch; of the last one between batches, and after the last epoch.
  std::int64_t batch_idx() const;
  std::int64_t dataloader_idx() const;
  /// Batches of a training epoch after limits; for data of unknown length the limit, an upper bound; -1: unknown.
  std::int64_t num_training_batches() const;
  /// True when some rank has validation batches. The same on all ranks, from on_train_start on.
  bool validates() const;
  /// Batches of each evaluation loader on this rank after limits, as above, of the stage that runs or ran last. Ranks may
  /// differ: base no decision on it that must be the same on all.
  const std::vector<std::int64_t>& num_evaluation_batches() const;
  /// All optimizer steps of fit(); -1: unknown. In configure_optimizers and earlier hooks the call makes the training loader.
  /// The number is that of the rank with most batches once lengths are agreed, this rank's own before.
  std::int64_t estimated_stepping_batches() const;
  /// Training batches since fit began, over all epochs.
  std::int64_t total_batch_idx() const;
  /// The current batch, or the last one, ends its epoch. If skip_epoch() ends the epoch, true from after the batch's hooks on.
  bool is_last_batch() const;
  /// Training has ended inside an epoch (max_steps, max_time, stop()): true from there on, in a final validation, in
  /// on_train_epoch_end and later. A run that resumes here trains the rest of the epoch, which then has its own end.
  bool epoch_is_unfinished() const;
  /// The current number of batches per optimizer step: GradientAccumulationScheduler may change it.
  std::int64_t accumulate_grad_batches() const;

  /// These three functions wait for values that are still on a device.
  const MetricMap& callback_metrics() const;
  const MetricMap& logged_metrics() const;
  const MetricMap& progress_bar_metrics() const;
  /// As callback_metrics() and progress_bar_metrics(), without waiting, for displays during training. For a value that is still
  /// on a device they start a copy, and return an older value or none.
  MetricMap callback_metrics_at_hand() const;
  MetricMap progress_bar_metrics_at_hand() const;
  /// The value for decisions of a monitor, the same on all ranks; unset when no rank logged the key. After the batches of a
  /// training or evaluation epoch it is the newest.
  std::optional<double> monitored(std::string_view name) const;
  /// As monitored(), between batches, where newest values of a step are not reduced yet: this call reduces them. Ranks: all.
  std::optional<double> monitored_now(std::string_view name);
  /// Sets a value to show and monitor without logging it, such as a learning rate.
  void set_callback_metric(std::string_view name, double value);

  int rank() const;
  int world_size() const;
  int local_rank() const;
  bool is_global_zero() const { return rank() == 0; }
  Strategy& strategy() const;
  at::Device device() const;
  /// As the module's functions of the same names.
  at::Generator rank_generator() const;
  at::Generator shared_generator() const;

  /// The data of the running entry point; null if it got loaders, and outside of entry points.
  DataModule* data_module() const;
  const std::vector<std::shared_ptr<Callback>>& callbacks() const;
  /// The callbacks of a class and of classes derived from it, in the order in which they run.
  template <class T>
  std::vector<T*> callbacks_of() const {
    std::vector<T*> found;
    for (const auto& callback : callbacks()) {
      if (auto* wanted = dynamic_cast<T*>(callback.get())) found.push_back(wanted);
    }
    return found;
  }
  /// The first of callbacks_of(); nullptr when there is none.
  template <class T>
  T* callback() const {
    const std::vector<T*> found = callbacks_of<T>();
    return found.empty() ? nullptr : found.front();
  }
  const std::vector<std::shared_ptr<Logger>>& loggers() const;
  /// Null when options().profiler names none.
  Profiler* profiler() const;
  /// With a profiler, measures the user's action until the result is destroyed: `auto timing = trainer.profile("augment");`.
  ProfiledAction profile(std::string_view action) const { return {profiler(), action}; }
  /// The first logger's folder, else default_root_dir. The same on all ranks.
  std::filesystem::path log_dir() const;
  std::filesystem::path default_root_dir() const;
  const std::vector<std::shared_ptr<torch::optim::Optimizer>>& optimizers() const;
  const std::vector<SchedulerConfig>& scheduler_configs() const;

  // Control, from hooks. Functions that write or change a run throw MisuseError on another thread than the one that runs its
  // hooks.

  /// Asks all ranks to stop; any rank may. They stop at the same step, after min_epochs and min_steps. Before fit(), it counts
  /// for the next one. Threading: any thread, also for should_stop() and clear_stop().
  void stop(const std::string& reason = "");
  /// True when this rank asked to stop, or all ranks agreed to stop.
  bool should_stop() const;
  /// Why the last fit() ended, as on the console: the reason given to stop(), "max_epochs=5 reached" and the like. Empty while
  /// it runs, and after an error.
  std::string stop_reason() const;
  /// Where the last entry point failed; unset: it did not fail, or none has started.
  const std::optional<Failure>& failure() const;
  /// Withdraws this rank's request to stop, and an agreed one that min_epochs or min_steps still delays.
  void clear_stop();
  /// Asks all ranks for a checkpoint, a validation or a pause, or to end with this epoch; any rank may. Requests travel with
  /// the gradients, so all ranks act after the same step, the current or the next one, before its row. A checkpoint is
  /// `manual-epoch=E-step=S.ckpt` in the folder of checkpoints. Paused ranks wait idle, without a time limit, for kContinue
  /// from any of them; a stop, a signal or an error also ends the pause. Pending requests are dropped when an entry point ends.
  /// Threading: any thread, also for paused().
  void request(RunCommand command);
  bool paused() const;
  /// Ends the training epoch after this batch, without its validation, on this rank's vote. In on_train_batch_start of a single
  /// process it skips the batch (Lightning's -1). On several ranks a vote after the batch's gradients were reduced counts one
  /// step later, and one after the epoch's last step has no effect.
  void skip_epoch();
  /// Changes the number of batches per optimizer step. Ranks: all, with one number, in a hook of the same batch; else fit()
  /// ends on all with an error that names ranks and numbers. If the length of epochs is unknown, several ranks use it from the
  /// step after the next one on.
  void set_accumulate_grad_batches(std::int64_t batches);
  /// Replaces the schedulers from here on. Ranks: all, in one hook; for a run that resumes in on_fit_start, after which it
  /// restores them.
  void set_schedulers(std::vector<SchedulerConfig> schedulers);
  /// Makes one more pass over this rank's training data, in the epoch's order, for statistics. Calls `visit` like
  /// training_step, with the batch on the device and in the run's precision, but without gradients and with the weights to
  /// evaluate (EvaluatedWeights) in the module. Logged values are dropped; metrics and random numbers are restored. Ranks: all,
  /// in one hook from on_train_start on. Throws MisuseError elsewhere, and while the epoch has batches left.
  void visit_training_data(const std::function<void(const Batch& batch, std::int64_t batch_idx)>& visit);
  /// Writes a checkpoint. Ranks: all, in the same hook; rank 0 writes. In a hook of fit() it is written at the next point at
  /// which a run can be saved: between two batches, before or after a validation, at an epoch's end, after on_train_end and
  /// after on_fit_end. Elsewhere it exists when the call returns. Throws IoError when writing fails: on every rank, from here
  /// or from fit().
  void save_checkpoint(const std::filesystem::path& file, bool weights_only = false);
  /// As save_checkpoint(), but a thread of rank 0 writes a copy of the state while training continues. If writing fails, the
  /// run ends on all ranks with an IoError, thrown on rank 0 after a batch or at the end. The end of an entry point, loading a
  /// checkpoint, errors and signals wait for files that are being written.
  void save_checkpoint_in_background(const std::filesystem::path& file, bool weights_only = false);
  /// The queue of checkpoint files: its when_done() calls back when all files requested before it are written. Ranks: other
  /// ranks than 0 write no files.
  BackgroundFiles& checkpoint_files();
  /// Passes a row to all loggers (on rank 0), outside log(). `step` defaults to the x axis of training rows.
  void log_to_loggers(const MetricMap& values, std::optional<std::int64_t> step = std::nullopt);
  /// Sets a function that rank 0 calls before training, once the loggers' folder is known, with it and the file of ckpt_path
  /// (empty: none). `levin fit` saves its config.yaml with it.
  void on_log_dir(std::function<void(const std::filesystem::path& folder, const std::filesystem::path& checkpoint)> save);
  /// Uses optimizers and schedulers made by name, instead of the module's configure_optimizers (`optimizer:` in YAML).
  void override_optimizers(std::shared_ptr<OptimizerFactory> optimizer, std::shared_ptr<LrSchedulerFactory> scheduler,
                           const Value& scheduler_settings = {});
  /// Sets the file of ckpt_path "best" or "last". Called: by ModelCheckpoint.
  void set_checkpoint_alias(const std::string& alias, const std::filesystem::path& file);

 private:
  friend struct TrainerState;
  std::unique_ptr<TrainerState> state_;
};

/// False in a Session, whose caller gives each batch: there is nothing that visit_training_data() could read.
LEVIN_API bool has_training_data(const Trainer& trainer);

/// The training samples of all ranks in the batch that has just ended; nullopt: unknown, on several ranks without a common
/// batch size (BatchLoader::batch_size) under automatic optimization. `batch` is this rank's. Called: in on_train_batch_end.
/// The counts travel with the gradients: with accumulation, samples of several batches are counted at the last.
LEVIN_API std::optional<std::int64_t> samples_of_all_ranks(const Trainer& trainer, const Batch& batch);

/// Reports by rank, as of the last row of training steps (log_every_n_steps); empty before the first. The same on all ranks.
LEVIN_API const std::vector<RankReport>& reports_of_ranks(const Trainer& trainer);

/// Dataset indices of the current batch's samples, by row; -1: only added to make ranks even. nullopt when the loader
/// does not know them (BatchLoader::epoch_samples). Called: in a hook of a batch; slower towards the end of an epoch.
LEVIN_API std::optional<std::vector<std::int64_t>> samples_of_batch(const Trainer& trainer);

/// Dataset indices of the samples of which Module::gather_for_metrics() gives the rows, in its order; empty when loaders do not
/// know them. `dataloader_idx`: the loader. Ranks: all. Called: in a hook of an epoch's end.
LEVIN_API std::vector<std::int64_t> samples_of_gathered_rows(const Trainer& trainer, std::int64_t dataloader_idx);

/// What the loader calls these samples (BatchLoader::sample_name); empty when it has no names. Called: in a hook of a batch, or
/// of an epoch's end.
LEVIN_API std::vector<std::string> names_of_samples(const Trainer& trainer, std::span<const std::int64_t> samples,
                                                    std::int64_t dataloader_idx);

/// The totals of all ranks in the evaluation that is about to end. Called: in its on_*_epoch_end and on_*_end.
LEVIN_API const EvaluationTotals& evaluation_of_all_ranks(const Trainer& trainer);

}  // namespace levin
