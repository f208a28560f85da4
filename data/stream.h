#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "levin/core/base/fwd.h"
#include "levin/core/batch_loader.h"

namespace levin {

/// A generator that LibTorch's functions take, and the distributions of the standard library as well.
///
///     torch::randn({32, 2}, rng);
///     std::uniform_int_distribution<int>(1, 6)(rng);
class LEVIN_API Random : public at::Generator {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t seed);
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();
};

struct LEVIN_API StreamOptions {
  /// Batches come of what the run itself does: BatchLoader::acts().
  bool acts = false;
  /// Samples in each batch but the last; unset: not known, and batches of several ranks weigh alike.
  std::optional<std::int64_t> batch_size = std::nullopt;
  std::optional<std::int64_t> seed = std::nullopt;  ///< of the random numbers; default: the seed of seed_everything
};

/// Batches that a function makes, one after another, until it gives none: the end of the epoch. How many there are is not known
/// before; limit_train_batches ends an epoch of a source that never ends.
///
/// Each rank and each epoch has random numbers of its own, from (seed, epoch, rank): ranks get different batches, and a run of
/// as many ranks gets the same ones again. A run that resumes within an epoch asks for the batches that are done once more, and
/// so goes on exactly as far as a batch is a function of the generator and of the calls before it in the epoch; with `acts` it
/// goes on with what comes. The function is asked for one batch ahead of the one that is worked on.
class LEVIN_API Stream final : public BatchLoader {
 public:
  using Function = std::function<std::optional<Batch>(Random&)>;

  /// Throws MisuseError for an empty function.
  explicit Stream(Function next, const StreamOptions& options = {});
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::optional<std::int64_t> batch_size() const override { return options_.batch_size; }
  void start_epoch(std::int64_t epoch) override;
  std::optional<Batch> next() override;
  void set_shard(const Shard& shard) override { shard_ = shard; }
  bool acts() const override { return options_.acts; }

 private:
  Function next_;
  StreamOptions options_;
  Shard shard_;
  std::optional<Random> random_;  ///< of the epoch; unset when it is over
};

/// A loader of made batches:
///
///     levin::LoaderPtr train_dataloader() override {
///       return levin::stream([](auto& rng) -> std::optional<levin::Batch> {
///         const auto x = torch::rand({32, 1}, rng);
///         return levin::Batch{{"x", x}, {"y", x.sin()}};
///       });
///     }
inline Stream stream(Stream::Function next, const StreamOptions& options = {}) { return Stream(std::move(next), options); }

}  // namespace levin
