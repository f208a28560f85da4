#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/batch_loader.h"
#include "levin/data/pipeline.h"

namespace levin {

struct LEVIN_API StreamOptions {
  /// Batches depend on what the run does: BatchLoader::is_interactive().
  bool interactive = false;
  /// Samples in each batch but the last; unset: a pipeline knows it where it ends with batch(); otherwise batches of several
  /// ranks weigh alike.
  std::optional<std::int64_t> batch_size = std::nullopt;
  std::optional<std::int64_t> seed = std::nullopt;  ///< of the random numbers; default: the seed of seed_everything
  int num_workers = 0;                              ///< threads that read ahead; 0: the training thread reads
  int prefetch_factor = 2;                          ///< batches that may lie ready, for each worker
  std::optional<bool> pin_memory = std::nullopt;    ///< page-locked memory; unset: when the Trainer uses a GPU
};

/// The loader of a Pipeline's batches. Ranks take them in turn: batch 0 is the first rank's, batch 1 the second's. A rank that
/// has none left takes part with weight 0.
///
/// Or of batches that a function makes, one after another, until it gives none: the end of the epoch. How many there are is not
/// known before; limit_train_batches ends an epoch of a source that never ends. The function is either the same in all epochs,
/// and continues where it stands, or made for each: a Source gets the epoch that begins, and gives the function that makes its
/// batches. What that holds, such as an open file, goes with it when it has given none, or the next epoch begins.
///
/// Each rank and each epoch has its own random numbers then, from (seed, epoch, rank): ranks get different batches, and a run
/// of as many ranks gets the same ones again. A run that resumes within an epoch requests the finished batches again, and so
/// resumes exactly as far as a batch is a function of the generator and of the calls before it in the epoch, as with a Source;
/// with `interactive` it continues with later batches. The function is called for one batch ahead of the one that is worked on.
class LEVIN_API Stream final : public BatchLoader {
 public:
  using Function = std::function<std::optional<Batch>(Random&)>;
  using Source = std::function<Function(const StreamEpoch&)>;

  /// Throws MisuseError for options out of range.
  explicit Stream(Pipeline<Batch> pipeline, const StreamOptions& options = {});
  /// Throws MisuseError for an empty function.
  explicit Stream(Function next, const StreamOptions& options = {});
  /// As stream(); start_epoch() throws MisuseError where the source gives an empty function.
  static Stream of_source(Source source, const StreamOptions& options = {});

  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> batch_size() const override;
  void start_epoch(std::int64_t epoch) override { start_epoch_at(epoch, 0); }
  std::optional<std::int64_t> samples_before(std::int64_t batches) const override;
  std::optional<std::int64_t> batches_from(std::int64_t samples) const override;
  bool can_start_at(std::int64_t samples, bool as_saved) const override;
  void start_epoch_at(std::int64_t epoch, std::int64_t samples) override;
  /// Throws Error, which names the batch, when reading it throws; the call after that continues with the batch after it.
  std::optional<Batch> next() override;
  std::optional<std::vector<std::int64_t>> epoch_samples(std::int64_t batches) const override;
  void set_shard(const Shard& shard) override { shard_ = shard; }
  std::optional<SampleShare> sample_share() const override;
  std::optional<std::uint64_t> data_fingerprint() const override { return pipeline_.node()->fingerprint(); }
  bool shuffles() const override { return facts().shuffles; }
  std::optional<int> num_workers() const override;
  bool is_interactive() const override { return options_.interactive; }
  void set_pin_memory(bool pin) override { pins_memory_ = options_.pin_memory.value_or(pin); }

 private:
  StreamEpoch epoch_of(std::int64_t epoch) const;
  PipelineFacts facts() const { return pipeline_.node()->facts(epoch_of(0)); }
  /// How many positions of an epoch a batch takes: its samples, or 1 where these are not known.
  std::int64_t positions_of_batch() const { return batch_size().value_or(1); }

  Pipeline<Batch> pipeline_;
  StreamOptions options_;
  Shard shard_;
  bool pins_memory_ = false;
  std::unique_ptr<PipelineReader> reader_;  ///< of the epoch; null when it is over
  std::int64_t epoch_ = 0;
  std::int64_t first_ = 0;  ///< the position at which the epoch began
  std::int64_t batches_read_ = 0;
  std::vector<std::int64_t> rows_read_;  ///< of each of these batches: a collate function may leave samples out
};

/// A loader of a pipeline's batches:
///
///     return levin::stream(levin::from_lines("logs/*.csv").map(parse).shuffle(10'000).batch(64), {.num_workers = 4});
inline Stream stream(Pipeline<Batch> pipeline, const StreamOptions& options = {}) {
  return Stream(std::move(pipeline), options);
}

/// A loader of made batches:
///
///     levin::LoaderPtr train_dataloader() override {
///       return levin::stream([](auto& rng) -> std::optional<levin::Batch> {
///         const auto x = torch::rand({32, 1}, rng);
///         return levin::Batch{{"x", x}, {"y", x.sin()}};
///       });
///     }
inline Stream stream(Stream::Function next, const StreamOptions& options = {}) { return Stream(std::move(next), options); }

/// A loader whose source is made for each epoch. Files that are divided among ranks:
///
///     return levin::stream([files](const levin::StreamEpoch& epoch) -> levin::Stream::Function {
///       auto reader = std::make_shared<Reader>(files, /*first=*/epoch.rank, /*step=*/epoch.world_size);
///       return [reader](auto&) { return reader->next_batch(); };
///     });
template <class Source>
requires(!std::is_invocable_v<Source&, Random&> && std::is_invocable_r_v<Stream::Function, Source&, const StreamEpoch&>) Stream
    stream(Source source, const StreamOptions& options = {}) {
  return Stream::of_source(std::move(source), options);
}

}  // namespace levin
