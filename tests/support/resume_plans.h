#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/config/trainer_values.h"
#include "levin/core/trainer_options.h"

namespace levin::test {

/// A change by a hook of the module to parameters and how they are trained, once in a run: at the beginning of training, in an
/// epoch, or in an iteration.
struct ParameterChange {
  enum class Kind : std::uint8_t { kAddGroup, kFreeze, kUnfreeze, kSetRate };
  Kind kind = Kind::kAddGroup;
  std::string hook;
  std::int64_t at = 0;  ///< epoch for the hooks of an epoch, else batches done over all epochs
};

/// Such a hook may not run on a rank that has no validation batch.
bool happens_for_each_validation_batch(const std::string& hook);

/// A program that trains, validates, draws random numbers everywhere, logs, stops early, skips epochs and saves.
struct ResumePlan {
  std::uint64_t seed = 0;
  std::int64_t epochs = 3;
  std::int64_t samples = 10;
  std::int64_t batch_size = 2;
  std::int64_t accumulate = 1;
  std::optional<CheckInterval> val_check_interval;
  std::optional<std::int64_t> check_val_every_n_epoch = 1;
  std::int64_t validation_samples = 3;
  std::int64_t sanity_steps = 0;
  std::int64_t log_every = 2;
  std::optional<std::int64_t> every_n_train_steps;
  std::int64_t skip_in_epoch = -1;        ///< in this epoch the module skips the rest after its second batch
  std::string skip_in = "training_step";  ///< or on_train_batch_start, on_train_batch_end
  std::int64_t patience = 2;
  std::int64_t max_steps = -1;
  int workers = 0;
  std::string source;  ///< of data: a name of resume_sources(), "pipeline" of shuffled samples; empty: a loader of them
  bool manual = false;
  bool plateau_each_step = false;
  std::int64_t own_from = 0;        ///< batches over all epochs after which ranks draw from their own generators
  std::int64_t shared_until = 100;  ///< and until which they draw from the shared one

  std::vector<ParameterChange> changes;

  PrecisionFormat precision = PrecisionFormat::kFloat32;
  bool tied = false;        ///< weights that the module holds under two names and in two submodules, and the optimizer twice
  std::string odd_weights;  ///< sparse, complex
  bool sequential = false;  ///< schedules, one after the other
  bool bad_losses = false;  ///< some are infinite, and their steps are skipped
  std::string averaging;    ///< of weights: mean, ema, swa, schedule_free
  std::string guard;        ///< action of a SpikeGuard that finds spikes everywhere: skip, rollback
  bool finetuning = false;  ///< the late part is a backbone
  std::string pruning;      ///< of weights, one in each epoch: a pruning_fn
  std::int64_t reload = 0;  ///< reload_dataloaders_every_n_epochs: data depends on the epoch in which loaders are requested
  bool validate_first = false;
  std::int64_t ask_at = -1;              ///< batches done over all epochs after which the last rank asks for a validation
  std::string ask_in = "training_step";  ///< or on_train_batch_end, on_after_backward
  bool local = false;                    ///< under manual optimization every second batch is not reduced
  std::int64_t cut_at = -1;              ///< another run ends with this step (max_steps) or batch over all epochs (stop)
  std::string cut_by;                    ///< max_steps, stop: the last rank asks for it; empty: there is no such run
  int ranks = 1;
  std::string strategy;  ///< with several: an option of ddp that is true, a comm_hook, or ddp_sharded

  std::string str() const;
};

/// The same for the same seed, on every rank.
ResumePlan random_resume_plan(std::uint64_t seed, int ranks = 1);
/// The first of these that reads from a source (resume_sources()), without its cut run.
ResumePlan first_resume_plan_of(const std::string& source, int ranks = 1);

/// One run requests a checkpoint in every hook. At each point at which a run can be saved, or every `stride`th, it is then
/// resumed, and must end as the first run did: the same weights to the bit, rows, decisions and counters. So must the cut run,
/// when it is resumed with the limits of the first. Returns the differences; empty for none. Ranks: all; `folder` is empty and
/// shared by them.
std::string check_resume_plan(const ResumePlan& plan, const std::filesystem::path& folder, std::size_t stride = 1);

/// The same for the same seed, for a Session, whose epochs have no length that is known before.
ResumePlan random_session_plan(std::uint64_t seed, int ranks = 1);

/// The same of a run that a Session drives, in a loop that keeps where it is. The run must also end as that of fit() on data
/// that draws no random numbers.
std::string check_session_plan(const ResumePlan& plan, const std::filesystem::path& folder, std::size_t stride = 1);

}  // namespace levin::test
