#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/option_type.h"

namespace levin {

/// The part of the data that a rank reads, and how.
struct LEVIN_API Shard {
  int rank = 0;
  int world_size = 1;
  Uneven uneven = Uneven::kKeep;
  bool force_sequential = false;  ///< overfit_batches: the sampler's order is ignored
  std::int64_t default_seed = 0;  ///< seed_everything's value, for loaders without their own seed
};

/// A rank's share of a loader that divides its samples over ranks.
struct LEVIN_API SampleShare {
  std::int64_t all = 0;   ///< samples of an epoch, over all ranks
  std::int64_t mine = 0;  ///< those that this rank reads
  std::int64_t evened_out =
      0;          ///< to make ranks even: samples that another rank reads too (above 0), or that no rank reads (below 0)
  int ranks = 1;  ///< among which they are divided
};

/// A source of batches, one epoch after another. DataLoader is the usual one; derive from this for your own data.
/// Threading: called by the training thread only.
class LEVIN_API BatchLoader {
 public:
  virtual ~BatchLoader() = default;
  /// Batches of an epoch on this rank, after set_shard; nullopt when the number is not known in advance.
  virtual std::optional<std::int64_t> size() const = 0;
  /// Samples in a full batch, the same for every batch but the last; nullopt when there is no such number. If all ranks return
  /// the same number, gradients are weighted by samples, so that uneven last batches count exactly.
  virtual std::optional<std::int64_t> batch_size() const { return std::nullopt; }
  /// Sets the samples of a full batch from the next epoch on. Default: false, it cannot be set. Called: before set_shard().
  virtual bool set_batch_size(std::int64_t /*samples*/) { return false; }
  /// Starts an epoch and drops the rest of the previous one.
  virtual void start_epoch(std::int64_t epoch) = 0;
  /// The position in the epoch's global order after `batches` batches on every rank from where the epoch was started: in
  /// samples, or in batches of all ranks where batch_size() gives none. Checkpoints store it, so that any number of ranks and
  /// any batch size can resume. Default: nullopt; a run then resumes only with the same number of ranks and batch size, and
  /// reads finished batches again.
  virtual std::optional<std::int64_t> samples_before(std::int64_t /*batches*/) const { return std::nullopt; }
  /// Batches of this rank from a position of samples_before(). Default: nullopt, the number is not known, and the loader cannot
  /// start there unless can_start_at() says so.
  virtual std::optional<std::int64_t> batches_from(std::int64_t /*samples*/) const { return std::nullopt; }
  /// Whether an epoch can begin at a position of samples_before(). `as_saved`: as many ranks and as large batches as in the run
  /// that gave it. Default: when batches_from() gives a number.
  virtual bool can_start_at(std::int64_t samples, bool /*as_saved*/) const { return batches_from(samples).has_value(); }
  /// start_epoch() at such a position: gives the rest of the epoch's samples, each once, without reading earlier ones. Called:
  /// only when can_start_at().
  virtual void start_epoch_at(std::int64_t /*epoch*/, std::int64_t /*samples*/) {
    throw MisuseError("this loader cannot begin inside an epoch: override start_epoch_at() with batches_from()");
  }
  /// The next batch, or nullopt at the end of the epoch. Throws what reading the data throws.
  virtual std::optional<Batch> next() = 0;
  /// Whether next() has a batch, for a loader that knows without reading it. levin then reads a batch when it works on it, not
  /// one ahead. Default: nullopt, levin reads one ahead to find out.
  virtual std::optional<bool> has_next() const { return std::nullopt; }
  /// Dataset indices of the samples in the first `batches` batches of this epoch, in order, for gather_for_metrics(); -1 for a
  /// sample that is only there to make ranks even; nullopt when the loader does not know.
  virtual std::optional<std::vector<std::int64_t>> epoch_samples(std::int64_t /*batches*/) const { return std::nullopt; }
  /// What a sample of epoch_samples() is called in files of predictions, such as the path of its file. Default: "", no name.
  virtual std::string sample_name(std::int64_t /*sample*/) const { return ""; }
  /// Called: once before training or evaluation, with the part that this rank reads. The default does nothing: your own loader
  /// divides the data itself, and may have different numbers of batches on different ranks.
  virtual void set_shard(const Shard&) {}
  /// The samples that this rank reads, after set_shard. Shown at the start of a run, and checked: ranks that share data must
  /// agree. Default: nullopt, the loader divides samples in another way.
  virtual std::optional<SampleShare> sample_share() const { return std::nullopt; }
  /// A fingerprint of the data that sample_share() counts. Ranks that share data but differ in it get an error that names them.
  /// Default: nullopt, only numbers of samples are compared.
  virtual std::optional<std::uint64_t> data_fingerprint() const { return std::nullopt; }
  /// True: two epochs differ in order.
  virtual bool shuffles() const { return false; }
  /// Threads that read ahead; 0: the training thread reads. Default: nullopt, the loader has no such option to advise on.
  virtual std::optional<int> num_workers() const { return std::nullopt; }
  /// True: batches depend on the module's actions, as in a reinforcement-learning environment, and making them is the work. A
  /// run that resumes inside an epoch does not ask for finished batches, and levin does not advise faster reading.
  virtual bool is_interactive() const { return false; }
  /// True: give batches in page-locked memory. The default does nothing.
  virtual void set_pin_memory(bool /*pin*/) {}
};

}  // namespace levin
