#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/base/shared.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/core/figure.h"
#include "levin/core/logged_item.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/protocol/metrics.h"
#include "levin/core/weights.h"

namespace levin {

class MetricCollection;
class MetricObject;
struct PredictorParts;

/// An optimizer with its schedulers.
struct LEVIN_API OptimizerSetup {
  std::shared_ptr<torch::optim::Optimizer> optimizer = nullptr;
  std::vector<SchedulerConfig> schedulers = {};
};

/// The result of configure_optimizers: nothing, one optimizer, one with schedulers, or several. Give an optimizer as an object
/// or a shared_ptr (Shared), a scheduler as in SchedulerMaker; the third part says when it steps, if not after each epoch.
///
///     return levin::AdamW(parameters(), lr);
///     return {levin::SGD(parameters(), lr), levin::StepLr::Options{.step_size = 5}};
///     return {levin::AdamW(parameters(), lr), levin::OneCycleLr::Options{…}, {.interval = levin::Interval::kStep}};
///     return {levin::Adam(generator_->parameters(), lr), levin::Adam(discriminator_->parameters(), lr)};
///     return {{generator, levin::StepLr::Options{…}}, {discriminator}};
///     return {optimizer, {{.scheduler = first, .interval = levin::Interval::kStep}, {.scheduler = second}}};
class LEVIN_API OptimizerSetups {
 public:
  using OptimizerPtr = Shared<torch::optim::Optimizer>;

  /// One of several.
  class LEVIN_API Entry {
   public:
    template <std::convertible_to<OptimizerPtr> Optimizer>
    Entry(Optimizer&& optimizer, std::vector<SchedulerConfig> schedulers = {})
        : setup_{OptimizerPtr(std::forward<Optimizer>(optimizer)), std::move(schedulers)} {}
    template <std::convertible_to<OptimizerPtr> Optimizer>
    Entry(Optimizer&& optimizer, const SchedulerMaker& scheduler, SchedulerConfig when = {})
        : setup_{OptimizerPtr(std::forward<Optimizer>(optimizer))} {
      when.scheduler = scheduler.make(*setup_.optimizer);
      setup_.schedulers.push_back(std::move(when));
    }
    Entry(OptimizerSetup setup) : setup_(std::move(setup)) {}
    const OptimizerSetup& setup() const { return setup_; }

   private:
    OptimizerSetup setup_;
  };

  OptimizerSetups() = default;
  OptimizerSetups(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) setups_.push_back(entry.setup());
  }
  template <std::convertible_to<OptimizerPtr> Optimizer>
  OptimizerSetups(Optimizer&& optimizer, std::vector<SchedulerConfig> schedulers = {})
      : OptimizerSetups({Entry(std::forward<Optimizer>(optimizer), std::move(schedulers))}) {}
  template <std::convertible_to<OptimizerPtr> Optimizer>
  OptimizerSetups(Optimizer&& optimizer, const SchedulerMaker& scheduler, SchedulerConfig when = {})
      : OptimizerSetups({Entry(std::forward<Optimizer>(optimizer), scheduler, std::move(when))}) {}
  OptimizerSetups(OptimizerSetup setup) : setups_{std::move(setup)} {}
  OptimizerSetups(std::vector<OptimizerSetup> setups) : setups_(std::move(setups)) {}

  std::vector<OptimizerSetup>& list() { return setups_; }
  const std::vector<OptimizerSetup>& list() const { return setups_; }

 private:
  std::vector<OptimizerSetup> setups_;
};

/// The options of Module::all_gather().
struct LEVIN_API GatherOptions {
  bool gradients = false;  ///< flow back to each rank's tensor; else they stop
};

/// The user's model: a torch::nn::Module with its steps, its optimizers and any of the hooks below. The same module runs
/// unchanged on one process and on many. Hooks run on every rank, after the callbacks' hooks of the same name.
class LEVIN_API Module : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  ~Module() override;

  // ---- Steps -------------------------------------------------------------------------------------------------------------

  // `log()` in a hook: a value of the step, of the epoch, of the epoch only, or no call at all (docs/hooks.md).

  /// Returns the loss of a training batch. An undefined loss skips the step. log(): step.
  virtual StepOutput training_step(const Batch& batch, std::int64_t batch_idx);
  /// Evaluates a validation batch. log(): epoch.
  virtual void validation_step(const Batch& batch, std::int64_t batch_idx);
  /// Evaluates a test batch. log(): epoch.
  virtual void test_step(const Batch& batch, std::int64_t batch_idx);
  /// Returns the predictions for a batch. log(): no.
  virtual Batch predict_step(const Batch& batch, std::int64_t batch_idx);
  /// Sets the output of validation_step or test_step that on_validation_batch_end or on_test_batch_end get; without a call it
  /// is empty. A second call replaces the first. Throws MisuseError elsewhere.
  void set_step_output(StepOutput output);
  /// With several evaluation loaders: the index of the batch's loader.
  std::int64_t dataloader_idx() const;

  // The module's own loaders, for entry points that get no data. log(): no.

  /// The loader of fit. Called: after the sanity check.
  virtual LoaderPtr train_dataloader() { return nullptr; }
  /// Called: before the sanity check or validation.
  virtual LoaderList val_dataloaders() { return {}; }
  /// Called: before testing.
  virtual LoaderList test_dataloaders() { return {}; }
  /// Called: before predicting.
  virtual LoaderList predict_dataloaders() { return {}; }

  /// Returns optimizers with their schedulers; none when there is nothing to optimize. Called: at the beginning of fit. log():
  /// no.
  virtual OptimizerSetups configure_optimizers() { return {}; }

  // ---- Logging -----------------------------------------------------------------------------------------------------------

  /// Makes a metric object of this module, whose state over an epoch is merged exactly over ranks (core/metric.h). Call it in
  /// members' initializers and the constructor, so that all ranks make the same. Throws MisuseError when the name is taken or
  /// empty.
  ///
  ///     levin::Accuracy& accuracy_ = add_metric<levin::Accuracy>("accuracy", {.num_classes = 10});
  template <class Derived>
  requires requires { typename Derived::Options; }
  Derived& add_metric(std::string name, const typename Derived::Options& options = {}) {
    return own_metric(std::move(name), std::make_shared<Derived>(options));
  }
  template <class Derived>
  requires(!requires { typename Derived::Options; }) Derived& add_metric(std::string name) {
    return own_metric(std::move(name), std::make_shared<Derived>());
  }
  /// Adds an object that the caller has made, such as Component<Metric>::get() of the module's options.
  Metric& add_metric(std::string name, const std::shared_ptr<Metric>& metric);
  /// Records the value of a metric object after its update: of the batch, and of all ranks' epoch. An array gets a key for each
  /// number: `name_0`, `name_1`, …. The state is reset after the epoch.
  void log(std::string_view name, Metric& metric, const LogOptions& options = {},
           SourceLocation where = SourceLocation::current());
  /// Adds several named metric objects (core/metric_collection.h). Throws as add_metric() does.
  MetricCollection add_metrics(const std::string& name, const MetricCollection& metrics);
  /// Records the values of all of them, as log() does of one.
  void log_dict(const MetricCollection& metrics, const LogOptions& options = {},
                SourceLocation where = SourceLocation::current());

  /// Records a metric under this name; submodules may call it too. Never communicates or waits for a GPU; any subset of ranks
  /// may call it. Throws MisuseError in hooks that do not permit it. Defaults: LogOptions.
  void log(std::string_view name, double value, const LogOptions& options = {},
           SourceLocation where = SourceLocation::current());
  /// `value` has one element, a real number; it is detached.
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {},
           SourceLocation where = SourceLocation::current());
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void log(std::string_view name, Number value, const LogOptions& options = {},
           SourceLocation where = SourceLocation::current()) {
    log(name, static_cast<double>(value), options, where);
  }
  void log_dict(const std::vector<std::pair<std::string, at::Tensor>>& metrics, const LogOptions& options = {},
                SourceLocation where = SourceLocation::current());
  void log_dict(const std::vector<std::pair<std::string, double>>& metrics, const LogOptions& options = {},
                SourceLocation where = SourceLocation::current());

  // ---- Images, texts and other items -------------------------------------------------------------------------------------

  // Each passes a named item to the loggers, in any hook and on any subset of ranks; each rank's item is shown. None
  // communicates or waits for a GPU: it copies the tensor on its device, and a thread does the rest while training continues.
  // If the thread cannot keep up, items are dropped, which is reported at the end of the run. Errors of a logger are thrown by
  // the next of these calls, or at the end of the run. All throw MisuseError outside of a run, and for an empty name or one
  // with a line break. They do nothing in the sanity check. See docs/trackers.md.

  /// An image: [H, W], [C, H, W], or [N, C, H, W], which becomes a grid of eight in a row. C is 1 (grey), 3 (RGB) or 4 (RGBA);
  /// floats, clipped to [0, 1], or bytes. Throws MisuseError for another shape or type.
  void log_image(std::string_view name, const at::Tensor& image, SourceLocation where = SourceLocation::current());
  /// The distribution of a tensor's numbers; the tensor has any shape. NaN and infinities are counted separately. Throws
  /// MisuseError for complex numbers.
  void log_histogram(std::string_view name, const at::Tensor& values, SourceLocation where = SourceLocation::current());
  /// A plot that levin draws (core/figure.h): a confusion matrix, curves, bars. Throws MisuseError when its parts do not fit
  /// together.
  void log_figure(std::string_view name, Figure figure, SourceLocation where = SourceLocation::current());
  /// A text; some loggers render Markdown.
  void log_text(std::string_view name, std::string text, SourceLocation where = SourceLocation::current());
  /// A table. Throws MisuseError when a row has more or fewer cells than columns, and for a cell that is a list or a map.
  void log_table(std::string_view name, Table table, SourceLocation where = SourceLocation::current());
  /// A file. It is read later, so do not change it until the run ends. Throws IoError when it does not exist.
  void log_file(std::string_view name, const std::filesystem::path& file, SourceLocation where = SourceLocation::current());

  // ---- Hooks, in the order in which a fit calls them -----------------------------------------------------------------------

  /// Once, on one process of each host, before setup, while the others wait. log(): no.
  virtual void prepare_data() {}
  /// At the beginning of fit, validate, test and predict. log(): no.
  virtual void setup(Stage) {}
  /// Once, before a checkpoint is read. log(): no.
  virtual void configure_model() {}
  /// Once: callbacks that the module brings along. log(): no.
  virtual std::vector<std::shared_ptr<Callback>> configure_callbacks() { return {}; }
  /// At the beginning of fit. log(): no.
  virtual void on_fit_start() {}
  /// Before the first epoch. log(): epoch only.
  virtual void on_train_start() {}
  /// Before each training epoch. log(): epoch only.
  virtual void on_train_epoch_start() {}
  /// For each batch, before it goes to the device. log(): no.
  virtual Batch on_before_batch_transfer(Batch batch, std::int64_t dataloader_idx);
  /// Moves a batch to the device. log(): no.
  virtual Batch transfer_batch_to_device(Batch batch, const at::Device& device, std::int64_t dataloader_idx);
  /// For each batch, once it is there. log(): no.
  virtual Batch on_after_batch_transfer(Batch batch, std::int64_t dataloader_idx);
  /// Before each training batch. log(): step.
  virtual void on_train_batch_start(const Batch&, std::int64_t /*batch_idx*/) {}
  /// Before gradients are reset. log(): step.
  virtual void on_before_zero_grad(torch::optim::Optimizer&) {}
  /// Resets gradients. log(): step.
  virtual void optimizer_zero_grad(torch::optim::Optimizer& optimizer);
  /// Before the backward pass. log(): step.
  virtual void on_before_backward(const at::Tensor&) {}
  /// The backward pass. log(): step.
  virtual void backward(const at::Tensor& loss);
  /// After the backward pass. log(): step.
  virtual void on_after_backward() {}
  /// Before each optimizer step, when gradients are complete. log(): step.
  virtual void on_before_optimizer_step(torch::optim::Optimizer&) {}
  /// Clips gradients. log(): step.
  virtual void configure_gradient_clipping(torch::optim::Optimizer& optimizer);
  /// Steps the optimizer. `closure` runs training_step, zero_grad and backward, and returns the loss; the default calls
  /// optimizer.step(closure). log(): step.
  virtual void optimizer_step(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& closure);
  /// Steps a scheduler that is due. log(): no.
  virtual void lr_scheduler_step(LrScheduler& scheduler, std::optional<double> metric);
  /// After each training batch. log(): step.
  virtual void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t /*batch_idx*/) {}
  /// After each training epoch and its validation. log(): epoch only.
  virtual void on_train_epoch_end() {}
  /// After the last epoch. log(): no.
  virtual void on_train_end() {}
  /// At the end of fit. log(): no.
  virtual void on_fit_end() {}
  /// At the end of every entry point, after an exception too. log(): no.
  virtual void teardown(Stage) {}

  /// Before the validation inside fit: resets gradients, unless optimization is manual. log(): no.
  virtual void on_validation_model_zero_grad();
  /// Before validation: puts the module in evaluation mode. log(): no.
  virtual void on_validation_model_eval();
  /// After validation: restores the mode. log(): no.
  virtual void on_validation_model_train() {}
  /// At the beginning of validation. log(): epoch only.
  virtual void on_validation_start() {}
  /// Before the first batch of validation. log(): epoch only.
  virtual void on_validation_epoch_start() {}
  /// Before each validation batch. log(): epoch.
  virtual void on_validation_batch_start(const Batch&, std::int64_t /*batch_idx*/, std::int64_t /*dataloader_idx*/) {}
  /// After each validation batch. log(): epoch.
  virtual void on_validation_batch_end(const StepOutput&, const Batch&, std::int64_t /*batch_idx*/,
                                       std::int64_t /*dataloader_idx*/) {}
  /// After the last batch of validation. log(): epoch only.
  virtual void on_validation_epoch_end() {}
  /// At the end of validation. log(): no.
  virtual void on_validation_end() {}
  /// Before testing: puts the module in evaluation mode. log(): no.
  virtual void on_test_model_eval();
  /// After testing: restores the mode. log(): no.
  virtual void on_test_model_train() {}
  /// At the beginning of testing. log(): epoch only.
  virtual void on_test_start() {}
  /// Before the first batch of testing. log(): epoch only.
  virtual void on_test_epoch_start() {}
  /// Before each test batch. log(): epoch.
  virtual void on_test_batch_start(const Batch&, std::int64_t /*batch_idx*/, std::int64_t /*dataloader_idx*/) {}
  /// After each test batch. log(): epoch.
  virtual void on_test_batch_end(const StepOutput&, const Batch&, std::int64_t /*batch_idx*/, std::int64_t /*dataloader_idx*/) {
  }
  /// After the last batch of testing. log(): epoch only.
  virtual void on_test_epoch_end() {}
  /// At the end of testing. log(): no.
  virtual void on_test_end() {}
  /// Before prediction: puts the module in evaluation mode. log(): no.
  virtual void on_predict_model_eval();
  /// After prediction: restores the mode. log(): no.
  virtual void on_predict_model_train() {}
  /// At the beginning of prediction. log(): no.
  virtual void on_predict_start() {}
  /// Before the first batch of prediction. log(): no.
  virtual void on_predict_epoch_start() {}
  /// Before each prediction batch. log(): no.
  virtual void on_predict_batch_start(const Batch&, std::int64_t /*batch_idx*/, std::int64_t /*dataloader_idx*/) {}
  /// After each prediction batch. log(): no.
  virtual void on_predict_batch_end(const Batch& /*prediction*/, const Batch&, std::int64_t /*batch_idx*/,
                                    std::int64_t /*dataloader_idx*/) {}
  /// After the last batch of prediction. log(): no.
  virtual void on_predict_epoch_end() {}
  /// At the end of prediction. log(): no.
  virtual void on_predict_end() {}

  /// After an error, on the rank that failed; must not communicate. log(): no.
  virtual void on_exception(const std::exception&) {}
  /// Adds to a checkpoint. log(): no.
  virtual void on_save_checkpoint(Checkpoint&) {}
  /// Reads what on_save_checkpoint() added. log(): no.
  virtual void on_load_checkpoint(const Checkpoint&) {}

  /// Floating-point operations of a training step on one batch, forward and backward, for ThroughputMonitor. Default: unknown.
  virtual std::optional<double> flops_per_batch() const { return std::nullopt; }

  // ---- The module's run ----------------------------------------------------------------------------------------------------

  // A module that is registered anywhere below the one that a Trainer runs, also in a ModuleList and whenever it was added, is
  // part of the run: log() and these functions work in it as in the module itself.

  /// Throws MisuseError outside of an entry point.
  Trainer& trainer() const;
  bool has_trainer() const;
  /// The data of the run, or of the Predictor that has the module: its facts() and label_scale(). Null: there is none.
  const DataModule* data_module() const;
  bool is_global_zero() const;
  std::int64_t current_epoch() const;
  std::int64_t global_step() const;
  /// The device of the module's parameters and batches.
  at::Device device() const;
  /// Gathers every rank's tensor along a new first dimension: result[r] is rank r's, so that one rank gets one row. Shapes and
  /// types are equal on all ranks. Gradients stop here, unless you request them:
  ///
  ///     const at::Tensor all = all_gather(features, {.gradients = true}).flatten(0, 1);
  ///
  /// Then the gradient of a rank's tensor is the sum over the losses of all ranks, so that a loss over the result trains as one
  /// rank with the whole batch does. A rank whose loss does not use the result, or that returns no loss, takes part with zeros.
  /// Gradients are then reduced after the backward pass, not during it. They are first derivatives: a backward pass with
  /// create_graph is a MisuseError. Ranks: all, with the same `gradients`; in a step all ranks need a batch. Throws DesyncError
  /// on every rank when types, shapes or call sites differ.
  at::Tensor all_gather(const at::Tensor& tensor, const GatherOptions& options = {},
                        SourceLocation where = SourceLocation::current()) const;
  /// Gathers the rows of all ranks, one per sample along the first dimension: each sample once, in the dataset's order, on
  /// every rank. Pass the rows of this rank since the start of the epoch, batch by batch in order; nothing when it had no
  /// batch. In a step or another hook of a batch, pass that batch's rows; then all ranks need equally many batches.
  ///
  ///     void on_validation_epoch_end() override {
  ///       const at::Tensor scores = gather_for_metrics(scores_);  // std::vector<at::Tensor>, one of each validation_step
  ///       log("auc", area_under_curve(scores), {.rank_zero_only = true});
  ///     }
  ///
  /// Samples that were repeated to make ranks even appear once. If the loader cannot name its samples
  /// (BatchLoader::epoch_samples), rows are in the order of ranks. `dataloader_idx`: the loader, outside of a batch. Ranks:
  /// all, with equal types and shapes except the first dimension. Throws MisuseError when the numbers of rows and samples
  /// differ, and DesyncError on every rank when types, shapes or call sites differ.
  at::Tensor gather_for_metrics(const std::vector<at::Tensor>& batches, std::int64_t dataloader_idx = 0,
                                SourceLocation where = SourceLocation::current()) const;
  at::Tensor gather_for_metrics(const at::Tensor& rows, std::int64_t dataloader_idx = 0,
                                SourceLocation where = SourceLocation::current()) const;

  /// A CPU generator with different numbers on each rank, for custom augmentation and dropout. The first call seeds it with
  /// (seed + (rank + 2) * 0x9e3779b9) modulo 2^32, a stream that neither LibTorch's default generator nor another rank uses;
  /// `seed` is seed_everything()'s, or LibTorch's default. It continues from one entry point to the next, seed_everything()
  /// seeds it again, and checkpoints store it. Not for the workers of a data loader, which read ahead. Throws MisuseError
  /// outside of an entry point.
  at::Generator rank_generator() const;
  /// A CPU generator with the same numbers on all ranks, as long as all draw equally often. Seeded with (seed + 0x9e3779b9)
  /// modulo 2^32; otherwise as above. A checkpoint stores rank 0's.
  at::Generator shared_generator() const;

  // ---- Manual optimization -------------------------------------------------------------------------------------------------

  /// False: training_step calls manual_backward and the optimizers itself, and its return value is not used for optimization.
  bool automatic_optimization() const { return automatic_optimization_; }
  void set_automatic_optimization(bool automatic) { automatic_optimization_ = automatic; }
  /// Backward with the hooks and the reduction over ranks. `synchronize` false: gradients stay local, for accumulation.
  void manual_backward(const at::Tensor& loss, bool synchronize = true);
  /// Takes an optimizer's step with its hooks, and counts it as a global step.
  void step_optimizer(std::size_t index = 0);
  /// Until untoggle_optimizer(), only this optimizer's parameters require gradients: those of the other optimizers cost no
  /// backward pass, keep their gradients, and DDP does not wait for theirs. Call it before you compute the loss. Ranks: all.
  /// Throws MisuseError when another optimizer is toggled.
  ///
  ///     toggle_optimizer(kGenerator);
  ///     manual_backward(loss(discriminator_->forward(generator_->forward(noise)), 1));
  ///     step_optimizer(kGenerator);
  ///     untoggle_optimizer(kGenerator);
  void toggle_optimizer(std::size_t index = 0);
  /// Undoes toggle_optimizer(). Throws MisuseError when this optimizer is not toggled.
  void untoggle_optimizer(std::size_t index = 0);
  torch::optim::Optimizer& optimizer(std::size_t index = 0) const;
  LrScheduler& lr_scheduler(std::size_t index = 0) const;
  /// Clips gradients in manual optimization as the Trainer's options would: to a norm, or each element to [-value, value]; 0
  /// clips nothing. Throws MisuseError for a value below 0 and NaN.
  void clip_gradients(torch::optim::Optimizer& optimizer, double value,
                      GradientClipAlgorithm algorithm = GradientClipAlgorithm::kNorm);

  // ---- Hyper-parameters ----------------------------------------------------------------------------------------------------

  /// Sets this module's entry in hparams.yaml and checkpoints. The registry calls it; otherwise call it in the constructor.
  template <class Options>
  void save_hyperparameters(const Options& options) {
    hparams_ = write_options(options);
  }
  const Value& hparams() const { return hparams_; }
  void set_hparams(Value hparams) { hparams_ = std::move(hparams); }

  // ---- Weights -------------------------------------------------------------------------------------------------------------

  /// Makes a module from a checkpoint: with its hyper-parameters (Derived::Options, if the class has them) and its weights, on
  /// options.map_location or the CPU. `hparams` replaces some hyper-parameters. Nothing of the data module is taken, which is
  /// a warning where it prepared batches: levin::Predictor takes it. Throws as load_weights() and read_options() do, and
  /// ConfigError when the checkpoint has no hyper-parameters of the module.
  ///
  ///     auto network = levin::Module::load_from_checkpoint<Digits>("best.ckpt");
  template <class Derived>
  static std::shared_ptr<Derived> load_from_checkpoint(const std::filesystem::path& checkpoint,
                                                       const WeightsOptions& options = {},
                                                       const Value& hparams = Value(Value::Map{})) {
    static_assert(std::derived_from<Derived, Module>);
    const std::filesystem::path file = checkpoint_at(checkpoint);
    std::shared_ptr<Derived> module;
    if constexpr (requires { typename Derived::Options; }) {
      using Options = typename Derived::Options;
      const auto made_of = read_options<Options>(detail::saved_hyperparameters(file, describe_options<Options>(), hparams));
      module = std::make_shared<Derived>(made_of);
      if (module->hparams().is_null()) module->set_hparams(write_options(made_of));
    } else {
      module = std::make_shared<Derived>();
    }
    if (!options.map_location.empty()) module->to(at::Device(options.map_location));
    load_weights(*module, file, options);
    detail::warn_of_prepared_data(file);
    return module;
  }
  /// Call levin::freeze() and levin::unfreeze() for this module.
  void freeze() { levin::freeze(*this); }
  void unfreeze() { levin::unfreeze(*this); }

 private:
  friend class ModuleAttachment;
  /// Attaches this object to a run; a copy is not attached.
  struct Attachment {
    Attachment() = default;
    Attachment(const Attachment&) noexcept {}
    Attachment& operator=(const Attachment&) noexcept { return *this; }  // NOLINT(bugprone-unhandled-self-assignment)

    Trainer* trainer = nullptr;
    MetricStore* metrics = nullptr;
    const PredictorParts* predictor = nullptr;  ///< of the Predictor that has the module
  };
  void own_object(std::string name, std::shared_ptr<MetricObject> object);
  template <class Derived>
  Derived& own_metric(std::string name, const std::shared_ptr<Derived>& metric) {
    add_metric(std::move(name), metric);
    return *metric;
  }

  mutable Attachment attachment_;
  std::vector<std::pair<std::string, std::shared_ptr<MetricObject>>> metrics_;
  bool automatic_optimization_ = true;
  Value hparams_;
};

}  // namespace levin
