#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
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

/// How an entry point runs.
struct LEVIN_API RunOptions {
  /// The checkpoint to start from: a file, also another program's (TensorFile), of which fit() takes Lightning's; "best" or
  /// "last" of the run that this Trainer has trained, or else of the newest of the experiment; or of a run's folder,
  /// "logs/version_3:best", "logs/version_3:last", "logs/version_3" (the last).
  std::optional<std::string> ckpt_path = std::nullopt;
  /// Weights that fit() begins with, loaded when setup() and configure_model() have run; nothing else is taken over. Rank 0
  /// says what was loaded and, unless `strict`, what differs. Not together with ckpt_path; other entry points do without.
  std::optional<InitialWeights> init_from = std::nullopt;
  /// The device onto which the tensors of ckpt_path and init_from go when they are read: "cpu", "cuda:1". Empty: they are
  /// mapped into memory, and go from there to the module's device.
  std::string map_location = {};
  /// Which dict of tensors of ckpt_path, and of init_from where that says none, a file of torch.save() with several holds as
  /// the weights: "generator", "models.generator".
  std::string key = {};
  /// Print the results of validate() and test() as a table, on rank 0.
  bool verbose = true;
  /// predict() gives its predictions. False where only callbacks want them, as they may be more than memory holds.
  bool return_predictions = true;
  /// The command that goes on from a checkpoint, shown by rank 0 when fit() fails or is interrupted; without one the file is.
  std::function<std::string(const std::filesystem::path& checkpoint)> resume_command = nullptr;
};

/// Where an entry point failed: what the errors of levin's own begin with, and those of a program's own types cannot say.
struct LEVIN_API Failure {
  int rank = 0;
  int world_size = 1;
  Whereabouts where;

  /// "failed in training_step (train, epoch 0, step 3)"; of several ranks "rank 1 failed in …".
  std::string place() const;
};

/// What a rank did since the last row of training steps but one, and what it has.
struct LEVIN_API RankReport {
  std::optional<double> working = std::nullopt;  ///< share of its steps that was no wait for other ranks; unset: alone
  std::int64_t memory = 0;                       ///< resident, in bytes
  std::int64_t device_memory = 0;                ///< allocated on its device, in bytes; 0 where nobody counts it
};

/// Runs a module: the loops, the hooks in Lightning's order, metrics, checkpoints, and every rank of it.
///
///     levin::Trainer trainer({.max_epochs = 5, .devices = 2});
///     trainer.fit(module, data);
///
/// With several devices the constructor starts the other ranks, by running this program again in processes of their own; the
/// process that was started by the user only supervises them and exits with their status. It does so in the `levin` program and
/// within run_main() and launch(), and throws MisuseError in others.
/// Threading: one thread for each Trainer, which runs the hooks; any thread may call stop(), clear_stop(), skip_epoch()
/// and request().
class LEVIN_API Trainer {
 public:
  explicit Trainer(TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Entry points. Ranks: all. Loaders that are not passed are the module's. Errors of user code leave them after teardown
  // hooks.

  void fit(Module& module, DataModule& data, const RunOptions& run = {});
  void fit(Module& module, LoaderPtr train, LoaderList validation = {}, const RunOptions& run = {});
  void fit(Module& module, const RunOptions& run = {});
  /// Gives one map of metrics for each loader.
  std::vector<MetricMap> validate(Module& module, DataModule& data, const RunOptions& run = {});
  std::vector<MetricMap> validate(Module& module, LoaderList loaders = {}, const RunOptions& run = {});
  std::vector<MetricMap> test(Module& module, DataModule& data, const RunOptions& run = {});
  std::vector<MetricMap> test(Module& module, LoaderList loaders = {}, const RunOptions& run = {});
  /// Gives, for each loader, what predict_step returned for each batch of this rank; nothing without return_predictions.
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
  /// Index of the batch being worked on, in its epoch; the last one between batches, and after the last epoch.
  std::int64_t batch_idx() const;
  std::int64_t dataloader_idx() const;
  /// Batches of a training epoch after limits; of data of unknown length the limit, which it may not come to; -1 when unknown.
  std::int64_t num_training_batches() const;
  /// fit() validates: some rank has validation batches. The same on all ranks, from on_train_start on.
  bool validates() const;
  /// Batches of each evaluation loader on this rank after limits, as above, of the stage that runs or ran last. Ranks may
  /// differ: decide nothing from it that all must decide alike.
  const std::vector<std::int64_t>& num_evaluation_batches() const;
  /// Optimizer steps that fit() will take in all; -1: unknown. In configure_optimizers and the hooks before it this asks for
  /// the training loader. It is the number of the rank with most batches where lengths are agreed, this rank's own before.
  std::int64_t estimated_stepping_batches() const;
  /// Training batches since fit began, over all epochs.
  std::int64_t total_batch_idx() const;
  /// The batch being worked on, or the last one, ends its epoch; also where skip_epoch() had it do so, from after its hooks on.
  bool is_last_batch() const;
  /// Training has ended before its epoch (max_steps, max_time, stop()): true from there on, in a validation that a stop brings,
  /// in on_train_epoch_end and behind. A run that goes on from here trains the rest of the epoch, which then has its own end.
  bool epoch_is_unfinished() const;
  /// Batches whose gradients make one optimizer step, as of now: GradientAccumulationScheduler may change it.
  std::int64_t accumulate_grad_batches() const;

  /// These three wait for values that are still on a device.
  const MetricMap& callback_metrics() const;
  const MetricMap& logged_metrics() const;
  const MetricMap& progress_bar_metrics() const;
  /// As callback_metrics() and progress_bar_metrics(), for what is drawn while training goes on: without a wait. A value that
  /// is still on a device is one of some steps before, or missing, and is sent for.
  MetricMap callback_metrics_at_hand() const;
  MetricMap progress_bar_metrics_at_hand() const;
  /// The value that a monitor decides on, the same on all ranks; unset when none logged the key. Once an epoch's batches are
  /// done, of training or an evaluation, it is the newest.
  std::optional<double> monitored(std::string_view name) const;
  /// As monitored(), between such places, where a step's newest value is each rank's own yet: ranks meet for it. Ranks: all.
  std::optional<double> monitored_now(std::string_view name);
  /// Shows and monitors a value that is not logged, such as a learning rate.
  void set_callback_metric(std::string_view name, double value);

  int rank() const;
  int world_size() const;
  int local_rank() const;
  bool is_global_zero() const { return rank() == 0; }
  Strategy& strategy() const;
  at::Device device() const;
  /// As the module's of the same names.
  at::Generator rank_generator() const;
  at::Generator shared_generator() const;

  /// The data of the entry point under way; null in one that was given loaders, and outside of them.
  DataModule* data_module() const;
  const std::vector<std::shared_ptr<Callback>>& callbacks() const;
  /// The callbacks of a class, in the order in which they run; those of classes derived from it too.
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
  /// With a profiler, measures an action of the user's own until this is gone: `auto timing = trainer.profile("augment");`.
  ProfiledAction profile(std::string_view action) const { return {profiler(), action}; }
  /// The first logger's folder, else default_root_dir. The same on all ranks.
  std::filesystem::path log_dir() const;
  std::filesystem::path default_root_dir() const;
  const std::vector<std::shared_ptr<torch::optim::Optimizer>>& optimizers() const;
  const std::vector<SchedulerConfig>& scheduler_configs() const;

  // Steering, from hooks. What writes or changes a run throws MisuseError on another thread than the one that runs its hooks.

  /// Asks all ranks to stop; any rank may. They stop at the same step. min_epochs and min_steps are kept. Before fit(), it
  /// counts for the next one. Threading: any thread, and so for should_stop() and clear_stop().
  void stop(const std::string& reason = "");
  /// True when this rank asked for it, or the ranks agreed to it.
  bool should_stop() const;
  /// Why the last fit() ended, as it says on the console: the reason given to stop(), "max_epochs=5 reached" and the like.
  /// Empty while it runs, and where an error ended it.
  std::string stop_reason() const;
  /// Where the last entry point failed; unset where it did not, or none has begun.
  const std::optional<Failure>& failure() const;
  /// Takes back this rank's wish to stop, and an agreed one that min_epochs or min_steps still holds up.
  void clear_stop();
  /// Asks all ranks for a checkpoint, a validation or a pause, or to end with this epoch; any rank may. Wishes travel with the
  /// gradients, so all ranks do it after the same step, before its row: the one under way, or the next one. A checkpoint is
  /// `manual-epoch=E-step=S.ckpt` in the folder of checkpoints. Ranks that pause wait without work or a time limit for
  /// kGoOn from any of them; a stop, a signal or an error ends it, too. What is not done when an entry point ends is
  /// forgotten. Threading: any thread, and so for paused().
  void request(RunCommand command);
  bool paused() const;
  /// Ends the training epoch after this batch, without its validation, on this rank's vote. In on_train_batch_start of one
  /// process the batch is not trained on (Lightning's -1). On several ranks a vote after the batch's gradients were reduced
  /// counts one step later, and one after the epoch's last step not at all.
  void skip_epoch();
  /// Ranks: all, with one number, in a hook of the same batch; else fit() ends on all with an error that names ranks and
  /// numbers. Where the length of epochs is not known, several ranks count by it from the step after the next one on.
  void set_accumulate_grad_batches(std::int64_t batches);
  /// Has these schedulers step from here on, in place of those that there are. Ranks: all, in one hook; in on_fit_start for a
  /// run that resumes, which restores them next.
  void set_schedulers(std::vector<SchedulerConfig> schedulers);
  /// One more pass over this rank's part of the training data, in the epoch's order, for statistics of it. Calls `visit` as
  /// training_step is called: with the batch on the device, in the run's precision; but without gradients, and with the weights
  /// to evaluate (EvaluatedWeights) in the module. What it logs vanishes; metrics and random numbers are then what they were.
  /// Ranks: all, in one hook from on_train_start on. Throws MisuseError elsewhere, and where the epoch has batches left.
  void visit_training_data(const std::function<void(const Batch& batch, std::int64_t batch_idx)>& visit);
  /// Writes a checkpoint. Ranks: all, in the same hook; rank 0 writes. In a hook of fit() it is written at the next point at
  /// which a run can be saved: between two batches, before or after a validation, at an epoch's end, after on_train_end and
  /// after on_fit_end; the file is there when that point is passed. Everywhere else it is there when this returns. Throws
  /// IoError when writing fails: on every rank, from here or from fit().
  void save_checkpoint(const std::filesystem::path& file, bool weights_only = false);
  /// As save_checkpoint(), but a thread of rank 0 writes a copy of the state while training continues. Should that fail, the
  /// run ends on all ranks with an IoError, thrown on rank 0 after a batch or at the end. The end of an entry point waits for
  /// what is being written, and so do loading a checkpoint, errors and signals.
  void save_checkpoint_in_background(const std::filesystem::path& file, bool weights_only = false);
  /// What else is done with files of checkpoints, after those that were asked for before it: when_done() calls back when they
  /// are written. Ranks: what others than rank 0 give has no files.
  BackgroundFiles& checkpoint_files();
  /// Hands a row to all loggers (on rank 0), outside log(). `step` defaults to the x axis of training rows.
  void log_to_loggers(const MetricMap& values, std::optional<std::int64_t> step = std::nullopt);
  /// Runs on rank 0 when the loggers' folder is known, before training, with it and the file that ckpt_path stands for (empty:
  /// none): `levin fit` saves its config.yaml so.
  void on_log_dir(std::function<void(const std::filesystem::path& folder, const std::filesystem::path& checkpoint)> save);
  /// Optimizers and schedulers made by name, in place of the module's configure_optimizers (`optimizer:` in YAML).
  void override_optimizers(std::shared_ptr<OptimizerFactory> optimizer, std::shared_ptr<LrSchedulerFactory> scheduler,
                           const Value& scheduler_settings = {});
  /// The file that ckpt_path "best" or "last" stands for; set by ModelCheckpoint.
  void set_checkpoint_alias(const std::string& alias, const std::filesystem::path& file);

 private:
  friend struct TrainerState;
  std::unique_ptr<TrainerState> state_;
};

/// Training samples that all ranks finished with the batch that has just ended; nullopt when that is not known: several ranks
/// without one batch size (BatchLoader::batch_size) under automatic optimization. `batch` is this rank's. Called: in
/// on_train_batch_end. It reads what came with the gradients: with accumulation samples of several batches come with the last.
LEVIN_API std::optional<std::int64_t> samples_of_all_ranks(const Trainer& trainer, const Batch& batch);

/// By rank, as of the last row of training steps (log_every_n_steps); empty before the first. The same on all ranks.
LEVIN_API const std::vector<RankReport>& reports_of_ranks(const Trainer& trainer);

/// Dataset indices of the samples of the batch in work, by row; -1: only there to make ranks even. nullopt when the loader
/// cannot tell (BatchLoader::epoch_samples). Called: in a hook of a batch. It takes longer the further the epoch is.
LEVIN_API std::optional<std::vector<std::int64_t>> samples_of_batch(const Trainer& trainer);

/// What all ranks did in the evaluation about to end, by the boundary before. Called: in its on_*_epoch_end and on_*_end.
LEVIN_API const EvaluationTotals& evaluation_of_all_ranks(const Trainer& trainer);

}  // namespace levin
