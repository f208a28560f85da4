#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/option_type.h"

namespace levin {

/// Which part of the data a rank reads, and how.
struct LEVIN_API Shard {
  int rank = 0;
  int world_size = 1;
  Uneven uneven = Uneven::kKeep;
  bool force_sequential = false;  ///< overfit_batches: the sampler's order is ignored
  std::int64_t default_seed = 0;  ///< seed_everything's value, for loaders without a seed of their own
};

/// What a rank reads of a loader that divides its samples over ranks.
struct LEVIN_API SampleShare {
  std::int64_t all = 0;   ///< samples of an epoch, over all ranks
  std::int64_t mine = 0;  ///< what this rank reads of them
  std::int64_t evened_out =
      0;          ///< so many of mine another rank reads, too (above 0), or nobody reads (below 0): ranks are even
  int ranks = 1;  ///< among which they are divided
};

/// A source of batches, one epoch after another. DataLoader is the usual one; derive from this for data of your own.
/// Threading: called by the training thread only.
class LEVIN_API BatchLoader {
 public:
  virtual ~BatchLoader() = default;
  /// Batches an epoch gives on this rank, after set_shard; nullopt when that is not known before the end.
  virtual std::optional<std::int64_t> size() const = 0;
  /// Samples in a full batch, the same for every batch but the last; nullopt when there is no such number. Ranks that all give
  /// the same number weigh gradients by samples, so that uneven last batches count exactly.
  virtual std::optional<std::int64_t> batch_size() const { return std::nullopt; }
  /// From the next epoch on a full batch has so many. Default: false, it cannot be set. Called: before set_shard().
  virtual bool set_batch_size(std::int64_t /*samples*/) { return false; }
  /// Starts an epoch; what is left of the one before is dropped.
  virtual void start_epoch(std::int64_t epoch) = 0;
  /// Samples of the epoch's global order before the place to which `batches` batches on every rank lead, from where the epoch
  /// was started: what a checkpoint remembers for any number of ranks and any batch size. Default: nullopt; a run then resumes
  /// only with as many ranks and the same batch size, and reads the batches that are done once more.
  virtual std::optional<std::int64_t> samples_before(std::int64_t /*batches*/) const { return std::nullopt; }
  /// Batches of this rank from a place that samples_before() gave. Default: nullopt, the loader cannot begin there.
  virtual std::optional<std::int64_t> batches_from(std::int64_t /*samples*/) const { return std::nullopt; }
  /// start_epoch() at such a place: what comes is the rest of the epoch's samples, each once. Called: only when batches_from()
  /// gives a number. Takes no time for what lies before.
  virtual void start_epoch_at(std::int64_t /*epoch*/, std::int64_t /*samples*/) {
    throw MisuseError("this loader cannot begin inside an epoch: override start_epoch_at() with batches_from()");
  }
  /// The next batch, or nullopt at the end of the epoch. Throws what reading the data throws.
  virtual std::optional<Batch> next() = 0;
  /// Dataset indices of the samples in the first `batches` batches of this epoch, in order, for gather_for_metrics(); -1 for a
  /// sample that is only there to make ranks even; nullopt when the loader cannot tell.
  virtual std::optional<std::vector<std::int64_t>> epoch_samples(std::int64_t /*batches*/) const { return std::nullopt; }
  /// Called once before training or evaluation with the part this rank shall read. The default does nothing: a loader of your
  /// own divides the data itself, and may have different numbers of batches on different ranks.
  virtual void set_shard(const Shard&) {}
  /// Which part of the samples this rank reads, after set_shard: shown at the start of a run, and checked, since ranks that
  /// share data must have the same. Default: nullopt, the loader divides them in a way of its own.
  virtual std::optional<SampleShare> sample_share() const { return std::nullopt; }
  /// A number for the data that sample_share() counts: ranks that share it must have the same, or it is an error that names
  /// those that differ. Default: nullopt, only the samples are counted.
  virtual std::optional<std::uint64_t> data_fingerprint() const { return std::nullopt; }
  /// True: two epochs differ in order.
  virtual bool shuffles() const { return false; }
  /// Threads that read ahead; 0: the training thread reads. Default: nullopt, there is no such number to advise on.
  virtual std::optional<int> num_workers() const { return std::nullopt; }
  /// True: batches come of what the run does, as an environment's answers to the module, and making them is the work: a run
  /// that resumes within an epoch does not ask for those that are done, and nobody is told to read faster.
  virtual bool acts() const { return false; }
  /// True: give batches in page-locked memory. The default does nothing.
  virtual void set_pin_memory(bool /*pin*/) {}
};

}  // namespace levin
