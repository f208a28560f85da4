#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

/// What a Pipeline is made of, for sources and steps of your own: values of any type behind a shared_ptr<void>. Programs write
/// levin::Pipeline, which knows the types.
namespace levin {

/// An epoch that a stream begins, and the part of its data that this rank is to read: 0 of 1 with
/// trainer.use_distributed_sampler: false.
struct LEVIN_API StreamEpoch {
  std::int64_t epoch = 0;  ///< counted from 0; with overfit_batches always 0
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;  ///< of the stream: StreamOptions::seed, else the seed of seed_everything
};

using PipelineValue = std::shared_ptr<void>;

/// Where an element was read, for errors.
struct LEVIN_API PipelinePlace {
  std::shared_ptr<const std::string> file;  ///< null: not from a file
  std::int64_t line = 0;                    ///< counted from 1; 0: of the whole file
};

/// One element of a pipeline, whose value is made when it is first needed: by a worker of the rank whose batch it is in, and
/// not at all where it is passed over. Threading: one at a time.
class LEVIN_API PipelineElement {
 public:
  using Maker = std::function<PipelineValue()>;

  PipelineElement(std::uint64_t id, PipelineValue value, PipelinePlace place = {})
      : id_(id), value_(std::move(value)), place_(std::move(place)) {}
  PipelineElement(std::uint64_t id, Maker maker, PipelinePlace place = {})
      : id_(id), maker_(std::move(maker)), place_(std::move(place)) {}

  /// The same for the same element in each epoch, on any number of ranks: its random numbers come from it.
  std::uint64_t id() const { return id_; }
  const PipelinePlace& place() const { return place_; }
  /// The value, which stays. Throws Error, which names the place, for what making it throws.
  const PipelineValue& value();
  /// The value, given away. Throws as value() does.
  PipelineValue take();
  /// take(), without a place in its errors: for an element that is made of this one, at the same place.
  PipelineValue take_unplaced();
  /// The same element under another id.
  PipelineElement renamed(std::uint64_t id) &&;

 private:
  std::uint64_t id_;
  PipelineValue value_;
  Maker maker_;
  PipelinePlace place_;
};

/// The id of an element that is made of another one, as its `number`-th; with number 0 the same.
LEVIN_API std::uint64_t derived_id(std::uint64_t id, std::uint64_t number);

/// The seed of what a rank draws in an epoch.
LEVIN_API std::uint64_t rank_seed(const StreamEpoch& epoch);

/// A pipeline while an epoch of it is read. Threading: one call at a time.
class LEVIN_API PipelineReader {
 public:
  virtual ~PipelineReader();
  /// The next element; nullopt at the end, and then again.
  virtual std::optional<PipelineElement> next() = 0;
  /// Passes over elements, whose values are not made unless they decide what follows. Returns how many it passed over: fewer at
  /// the end. Default: calls next().
  virtual std::int64_t skip(std::int64_t elements);
  /// skip() in samples, for elements that are batches. Default: MisuseError, they have no fixed number of samples.
  virtual std::int64_t skip_samples(std::int64_t samples);
};

/// What is known of an epoch before it is read.
struct LEVIN_API PipelineFacts {
  std::optional<std::int64_t> size = std::nullopt;        ///< elements
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< samples in each element but the last, where these are batches
  std::optional<std::int64_t> samples = std::nullopt;     ///< in all of them
  bool shuffles = false;                                  ///< two epochs differ in order
  /// Ranks read different elements; otherwise all read the same ones, and the loader takes every world-size-th batch.
  bool is_divided = false;
  bool can_skip = true;     ///< elements can be passed over as if they had been read
  std::uint64_t draws = 0;  ///< how many steps before draw random numbers
};

/// A pipeline, or its part up to a step. It does not change; each epoch opens it anew.
class LEVIN_API PipelineNode {
 public:
  virtual ~PipelineNode();
  /// The reader stands without the node.
  virtual std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const = 0;
  virtual PipelineFacts facts(const StreamEpoch& epoch) const = 0;
  /// Of the data: DataFingerprint. Default: nullopt, it cannot be told without reading it.
  virtual std::optional<std::uint64_t> fingerprint() const { return std::nullopt; }
};

using PipelineNodePtr = std::shared_ptr<const PipelineNode>;

namespace pipeline_nodes {

/// A value of another one. `seed`: of the random numbers of the element. Threading: called by several threads at once.
using Map = std::function<PipelineValue(PipelineValue value, std::uint64_t seed)>;
using Predicate = std::function<bool(const void* value)>;
using Length = std::function<std::int64_t(const void* value)>;
using Expand = std::function<PipelineNodePtr(PipelineValue value)>;
/// One value of several, in their order.
using Combine = std::function<PipelineValue(std::vector<PipelineValue> values)>;
/// Gives the values of an epoch one after another, and null at the end.
using Generate = std::function<PipelineValue()>;

/// Values by index.
LEVIN_API PipelineNodePtr indexed(std::int64_t size, std::function<PipelineValue(std::int64_t)> value,
                                  std::function<std::optional<std::uint64_t>()> fingerprint);
LEVIN_API PipelineNodePtr generated(std::function<Generate(const StreamEpoch&)> source);
/// Values of std::filesystem::path.
LEVIN_API PipelineNodePtr files(const std::vector<std::string>& patterns);
/// Values of std::string.
LEVIN_API PipelineNodePtr lines(const std::filesystem::path& file);

LEVIN_API PipelineNodePtr map(PipelineNodePtr parent, Map function);
LEVIN_API PipelineNodePtr filter(PipelineNodePtr parent, Predicate keeps);
LEVIN_API PipelineNodePtr flat_map(PipelineNodePtr parent, Expand expand, std::int64_t at_once);
LEVIN_API PipelineNodePtr shuffle(PipelineNodePtr parent, std::optional<std::int64_t> window);
LEVIN_API PipelineNodePtr repeat(PipelineNodePtr parent, std::optional<std::int64_t> times);
LEVIN_API PipelineNodePtr range(PipelineNodePtr parent, std::int64_t first, std::optional<std::int64_t> most);
LEVIN_API PipelineNodePtr shard(PipelineNodePtr parent);
LEVIN_API PipelineNodePtr prefetch(PipelineNodePtr parent, std::int64_t elements, int threads);
/// Without weights one of each in turn.
LEVIN_API PipelineNodePtr mix(std::vector<PipelineNodePtr> parents, std::vector<double> weights, bool ends_with_first);

LEVIN_API PipelineNodePtr batch(PipelineNodePtr parent, std::int64_t samples, bool drop_last, Combine combine);
struct LEVIN_API LengthBounds {
  std::int64_t max_tokens = 0;  ///< the longest length times the samples of a batch; 0: no such bound
  std::int64_t max_samples = 0;
  std::vector<std::int64_t> boundaries;  ///< lengths up to each make a bucket, and longer ones the last
};
LEVIN_API PipelineNodePtr batch_by_length(PipelineNodePtr parent, LengthBounds bounds, Length length, Combine combine);
/// Elements are at::Tensor [n], and become Batch.
LEVIN_API PipelineNodePtr pack(PipelineNodePtr parent, std::int64_t length);

}  // namespace pipeline_nodes
}  // namespace levin
