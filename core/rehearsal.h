#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch_loader.h"
#include "levin/core/callback.h"
#include "levin/core/data_module.h"

// Trying something out before a fit trains, and going back to what training had come to before.
namespace levin {

class DataSource;
struct TrainerState;

/// A short training on the side: with the run's module, data, optimizers and strategy, and without its schedulers, callbacks,
/// loggers and validation.
struct LEVIN_API Trial {
  std::int64_t steps = 1;                                 ///< of the optimizer, after which it ends
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< of the training loader, for each rank; unset: as it is
  std::shared_ptr<Callback> observer = nullptr;           ///< its only callback
};

/// What a RehearsingCallback tries out before a fit, and what the fit then begins with.
class LEVIN_API Rehearsal {
 public:
  Rehearsal(TrainerState& run, DataSource& source) : run_(run), source_(source) {}

  /// Trains. Afterwards, and when it throws what the training has thrown, weights, buffers, random numbers and the data
  /// module's state are as they were; so is what else a module keeps in on_save_checkpoint() and on_load_checkpoint(). The
  /// module's hooks run as in a fit, from on_train_start to on_train_end. Ranks: all.
  void run(const Trial& trial);
  /// The training loader, as this rank reads it.
  const BatchLoader& loader();

  /// Every parameter group begins the fit with this rate, and schedules that are relative to rates are so to this one; those
  /// that name their own, as OneCycleLR's max_lr, keep them. Ranks: all.
  void set_learning_rate(double lr);
  /// The training loader gives batches of this size to each rank. A run that resumes the fit does so, too. Ranks: all.
  void set_batch_size(std::int64_t samples);

 private:
  TrainerState& run_;
  DataSource& source_;
};

/// A callback that tries something out before a fit begins: not where one resumes, and not with fast_dev_run.
class LEVIN_API RehearsingCallback : public Callback {
 public:
  ~RehearsingCallback() override;
  /// Called: when the module has its weights, before optimizers are made. Ranks: all.
  virtual void rehearse(Trainer& trainer, Rehearsal& rehearsal) = 0;
};

/// A loader that a fit reads.
struct LEVIN_API FitLoader {
  std::string name;  ///< "training loader", "validation loader 1"
  LoaderPtr loader;
  std::optional<std::int64_t> batches = std::nullopt;  ///< that limits leave of an epoch; unset: all
};

/// A fit's module and data, to compute something with them before it trains. When this is gone, parameters, buffers, gradients,
/// modes, metric objects, random numbers and the place in the data are as before; what a module, dataset or loader keeps
/// elsewhere is not. What is logged meanwhile goes nowhere. Called: in on_fit_start, one at a time. Ranks: all, with equal
/// calls.
class LEVIN_API FitPreview {
 public:
  /// `in_64_bits`: parameters, buffers and the batch are 64-bit numbers meanwhile. Throws MisuseError outside of on_fit_start.
  explicit FitPreview(Trainer& trainer, bool in_64_bits = false);
  ~FitPreview();

  /// That of training first. They are asked for once for all checks, and anew for the fit. Whoever reads one starts its epoch.
  const std::vector<FitLoader>& loaders() const;
  /// The module optimizes automatically, and each rank has a batch of training data: loss() may be called.
  bool has_loss() const;
  /// training_step's loss of the first training batch, each time with the same random numbers and buffers. Throws MisuseError
  /// when it gives none.
  at::Tensor loss();
  /// Module::backward: gradients of this rank alone.
  void backward(const at::Tensor& loss);
  /// A signal wants the run to end: whoever reads for long reads no further.
  bool interrupted() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Looks for what is wrong before a run trains, in on_fit_start of a fit that does not go on from a checkpoint. All ranks find
/// the same, and say or throw the same.
class LEVIN_API RunCheck : public Callback {
 public:
  /// What was found, a line each. The same on all ranks.
  const std::vector<std::string>& findings() const { return findings_; }
  /// Throws MisuseError when something was found and that is an error.
  void on_fit_start(Trainer& trainer, Module& module) final;

 protected:
  virtual bool finding_is_error() const = 0;
  /// Looks, and tells add_finding() and add_note(). Ranks: all.
  virtual void look(Trainer& trainer, Module& module) = 0;
  static constexpr std::size_t kMostFindings = 20;
  /// Something wrong, on this rank or on all: where, and what. The first kMostFindings of each rank are kept.
  void add_finding(std::string text) {
    if (findings_.size() < kMostFindings) findings_.push_back(std::move(text));
  }
  /// What rank 0 says of the check.
  void add_note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> findings_;
  std::vector<std::string> notes_;
};

/// What training has come to, in memory, to go back to: weights and buffers of the module, optimizers with their learning
/// rates, learning-rate schedulers, and the scale of the loss under 16-mixed. Counters, random numbers, the place in the data
/// and what callbacks remember are not part of it.
///
/// Each rank keeps its own, on the device, without a word to others. Tensors are copied into the memory of the time before.
/// Called: in on_train_start, on_train_batch_start and on_train_batch_end.
class LEVIN_API TrainingSnapshot {
 public:
  enum class Parts : std::uint8_t { kAll, kBuffers };

  bool empty() const { return content_ == nullptr; }
  /// It has these parts, and no others.
  bool has(Parts parts) const;
  /// Takes what is now.
  void take(const Trainer& trainer, Parts parts = Parts::kAll);
  /// Takes the newest whole checkpoint of this fit, one that it goes on from included, as it stands on the disk. False where
  /// there is none. Ranks: all, and each reads the file.
  bool take_newest_checkpoint(const Trainer& trainer);
  /// Goes back to it; it stays. Schedulers that have come in place of those that there were go on as they are,
  /// with their rates. Throws ConfigError when parameters are in other groups by now.
  void restore(const Trainer& trainer) const;

  /// What was taken, and of a checkpoint all of it; null where nothing was.
  const Checkpoint* content() const { return content_.get(); }
  /// Puts it into a checkpoint, under names that begin with `prefix`, and takes it from there. Where ranks divide optimizers,
  /// nothing is put there, as rank 0, which writes, does not have it.
  void save(const Trainer& trainer, const std::string& prefix, Checkpoint& checkpoint) const;
  void load(const std::string& prefix, const Checkpoint& checkpoint);

 private:
  std::shared_ptr<const Checkpoint> content_;
  bool is_own_ = true;  ///< of this rank; a checkpoint is of all
};

}  // namespace levin
