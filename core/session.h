#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "levin/core/batch.h"
#include "levin/core/batch_loader.h"
#include "levin/core/config/value.h"
#include "levin/core/data_module.h"
#include "levin/core/protocol/metrics.h"
#include "levin/core/trainer.h"
#include "levin/core/trainer_options.h"
#include "levin/core/weights.h"

namespace levin {

class Module;

/// The outcome of Session::step().
struct LEVIN_API StepResult {
  StepOutput output;        ///< what training_step returned, its loss detached; empty when this rank had no part in a step
  bool ends_epoch = false;  ///< the epoch ended with this step: by a limit, skip_epoch(), or another rank
  bool stops = false;       ///< training is over: call end(). Trainer::stop_reason() says why
};

/// State of the caller of a Session, for its checkpoints.
struct LEVIN_API KeptState {
  Value values = {};
  std::map<std::string, at::Tensor> tensors = {};  ///< names without a dot
};
/// How such state is read for a checkpoint, and restored from one. `load` gets what `save` gave.
struct LEVIN_API KeptFunctions {
  std::function<KeptState()> save;
  std::function<void(const KeptState&)> load;
};

/// What a Session trains, and how begin() starts.
struct LEVIN_API SessionParts {
  std::shared_ptr<Module> module;
  /// Its validation loaders, facts and state, as in fit(); not its training loader. Null: what the module has.
  std::shared_ptr<DataModule> data = nullptr;
  RunOptions options = {};
};

/// Training that somebody else's loop drives: everything that a Trainer does, one step at a time.
///
///     levin::Session session(options, module);
///     session.begin();
///     while (world.is_running()) {
///       if (session.step(world.observe()).stops) break;
///     }
///     session.save("model.ckpt");
///     session.end();
///
/// An epoch lasts until end_epoch(), or `limit_train_batches` steps; without either it is the whole session. max_epochs is
/// without limit unless set. Gradients and averages count each sample once, whatever the sizes of batches.
///
/// An error of a call is that of the user's code or one of levin's, with its place. The session has then ended, and may begin
/// again.
///
/// Ranks: each drives a session of its own, all with the same calls; but those that have called end_epoch() or end() take part
/// in the others' steps without a batch until all have. With `uneven: drop`, and under manual optimization, the epoch ends with
/// the first rank that ends it, and training with the first end(). Calls that do not go together, such as step() on one rank
/// and validate() on another, are a MisuseError on all that names both. Threading: for the thread that has called begin().
class LEVIN_API Session {
 public:
  /// Computes a step's output in place of training_step, and may log as that does. Gets the batch on the module's device.
  using Closure = std::function<StepOutput(const Batch&)>;

  /// The module must outlive the session.
  Session(TrainerOptions options, Module& module);
  /// The session owns what `make` gives, which is called once on each rank, when ranks have started.
  Session(TrainerOptions options, const std::function<SessionParts(Trainer&)>& make);
  /// What `levin fit --config file` would train. `overrides`: "trainer.max_epochs=5", "trainer.callbacks+=EarlyStopping", as
  /// on the command line. Sections are those of `levin fit`; variables of the environment are not read. Of `data:`, training
  /// data is not used. Throws ConfigErrors with file, line and column.
  static Session from_yaml(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
  /// The same of YAML itself, which errors call "YAML text". Its files are relative to the working folder.
  static Session from_yaml_text(const std::string& text, const std::vector<std::string>& overrides = {});
  /// Ends a session that is under way as an error would, without its last hooks.
  ~Session();
  Session(Session&& other) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sets up and runs hooks until on_train_start. `ckpt_path`: as RunOptions::ckpt_path, to resume; else that of the parts. The
  /// run is then where the checkpoint was saved, with its random numbers.
  void begin(const std::optional<std::string>& ckpt_path = std::nullopt);
  /// Trains on a batch: training_step, backward, and where the accumulation ends the optimizer's step; rows, hooks. Begins an
  /// epoch where none is under way.
  StepResult step(Batch batch);
  /// The same with a loss that the caller computes.
  StepResult step(Batch batch, Closure closure);
  /// Begins an epoch, with its hooks, before its first step. Nothing happens where one is under way. True: training is over.
  bool begin_epoch();
  /// Ends the epoch; the next step begins another. Nothing happens where no epoch is under way. True: training is over.
  bool end_epoch();
  /// Evaluates the module on loaders or batches, as a validation of fit() does. Empty: on the validation data of `data` or the
  /// module. Gives what was logged, by loader. Throws MisuseError without data.
  std::vector<MetricMap> validate(LoaderList loaders = {});
  /// The same with test_step and the hooks of a test.
  std::vector<MetricMap> test(LoaderList loaders = {});
  /// predict_step for one batch, in evaluation mode, with the weights to evaluate (averages), without gradients. Ranks: any.
  Batch predict(Batch batch);
  /// Saves a checkpoint from which begin() resumes here, to the bit. The file is there when it returns.
  void save(const std::filesystem::path& file);
  /// Gives the module the weights of a checkpoint or another file (load_weights()); optimizers and counters stay. To go back to
  /// a checkpoint, call end(), then begin(file).
  WeightsReport load(const std::filesystem::path& file, const WeightsOptions& options = {});
  /// Ends the epoch and training, with their hooks.
  void end();

  /// Keeps state of the caller in each checkpoint, for each rank its own: begin() restores it from one. Called: before begin().
  void keep(const std::string& name, KeptFunctions functions);
  /// The same of a variable, which outlives the session.
  void keep(const std::string& name, Value& value);
  void keep(const std::string& name, at::Tensor& tensor);
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void keep(const std::string& name, Number& number) {
    keep(name, {[&number] { return KeptState{.values = Value(number)}; },
                [&number](const KeptState& kept) { number = kept_number<Number>(kept.values); }});
  }

  /// Asks training to end after the next step, on all ranks. Threading: any thread.
  void stop(const std::string& reason = {});
  /// What `stops` of the last step said, or that the next step will be the last.
  bool should_stop() const;
  /// What this rank reads of training data that a loader divides, as fit() would tell it: `loader.set_shard(session.shard())`.
  /// Called: after begin().
  Shard shard() const;
  std::int64_t global_step() const;
  const MetricMap& callback_metrics() const;
  /// What is trained.
  Module& module();
  /// The Trainer that hooks and callbacks get.
  Trainer& trainer();

 private:
  template <class Number>
  static Number kept_number(const Value& value) {
    if constexpr (std::is_same_v<Number, bool>) return value.as_bool();
    if constexpr (std::is_floating_point_v<Number>) return static_cast<Number>(value.as_double());
    return static_cast<Number>(value.as_int());
  }
  std::vector<MetricMap> evaluate(Stage stage, LoaderList loaders);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace levin
