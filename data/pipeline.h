#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/batch.h"
#include "levin/data/dataset.h"
#include "levin/data/pipeline_node.h"
#include "levin/data/random.h"

namespace levin {

template <class T>
class Pipeline;

namespace pipeline_types {

template <class T>
struct IsPipeline : std::false_type {};
template <class T>
struct IsPipeline<Pipeline<T>> : std::true_type {
  using Element = T;
};

template <class T>
T taken(const PipelineValue& value) {
  return std::move(*static_cast<T*>(value.get()));
}

template <class T>
PipelineValue made(T value) {
  return std::make_shared<T>(std::move(value));
}

template <class F, class T>
inline constexpr bool kDraws = std::is_invocable_v<const F&, T, Random&>;

template <class F, class T>
auto call(const F& function, T&& value, std::uint64_t seed) {
  if constexpr (kDraws<F, T>) {
    Random random(seed);
    return function(std::forward<T>(value), random);
  } else {
    return function(std::forward<T>(value));
  }
}

template <class F, class T>
using Result = decltype(call(std::declval<const F&>(), std::declval<T>(), 0));

/// A function of several elements, as one of their values.
template <class T, class F>
pipeline_nodes::Combine combine(F function) {
  return [function = std::move(function)](const std::vector<PipelineValue>& values) {
    std::vector<T> elements;
    elements.reserve(values.size());
    for (const PipelineValue& value : values) elements.push_back(taken<T>(value));
    return made(function(std::move(elements)));
  };
}

/// What several elements become without a function of the user's: samples are stacked, others are a vector.
template <class T>
auto stacked(std::vector<T> elements) {
  if constexpr (std::is_same_v<T, Batch>) {
    return stack_samples(elements);
  } else {
    return elements;
  }
}

}  // namespace pipeline_types

/// Options of Pipeline::flat_map().
struct LEVIN_API FlatMapOptions {
  std::int64_t at_once = 1;  ///< how many elements are read at the same time, one of each in turn
};

/// Options of Pipeline::batch().
struct LEVIN_API PipelineBatchOptions {
  bool drop_last = false;  ///< leave out a last batch that is not full
};

/// Options of Pipeline::bucket_by_length().
struct LEVIN_API BucketOptions {
  std::vector<std::int64_t> boundaries;  ///< lengths up to each make a bucket, and longer ones the last
  std::int64_t max_tokens = 0;           ///< the longest length times the samples of a batch; 0: no such bound
  std::int64_t max_samples = 0;          ///< in a batch; 0: no such bound
};

/// Elements of type T one after another: from files, a list or a function, through steps that change, order and collect them.
///
///     levin::LoaderPtr train_dataloader() override {
///       return levin::stream(levin::from_lines("logs/*.csv").map(parse).shuffle(10'000).batch(64), {.num_workers = 4});
///     }
///
/// An epoch's elements and their order depend on the seed and the epoch alone: ranks and workers make no difference. All ranks
/// go through the same elements and take their batches in turn; what map() makes is made only for the batches of a rank, by its
/// workers, so passing over the others costs little. shard() gives each rank a part of the elements instead.
///
/// A run that resumes within an epoch goes on with the next batch on any number of ranks, without making what it passes over.
/// With shard() or a function as the source it needs as many ranks as before.
///
/// Functions are called by several threads at the same time. Where they take a second argument, levin::Random&, it draws from
/// the seed, the epoch and the element alone. A function that throws fails the batch, with the element's file and line.
///
/// A pipeline is cheap to copy and does not change: each step makes another one. Errors: MisuseError for numbers out of range.
template <class T>
class Pipeline {
 public:
  explicit Pipeline(PipelineNodePtr node) : node_(std::move(node)) {}

  /// What `function` makes of each element: U f(T) or U f(T, Random&).
  template <class F>
  auto map(F function) const {
    using U = pipeline_types::Result<F, T>;
    return Pipeline<U>(
        pipeline_nodes::map(node_, [function = std::move(function)](const PipelineValue& value, std::uint64_t seed) {
          return pipeline_types::made<U>(pipeline_types::call<F, T>(function, pipeline_types::taken<T>(value), seed));
        }));
  }
  /// Those of which `keeps` is true: bool f(const T&). It is asked of every element, on each rank.
  template <std::predicate<const T&> F>
  Pipeline filter(F keeps) const {
    return Pipeline(pipeline_nodes::filter(
        node_, [keeps = std::move(keeps)](const void* value) { return keeps(*static_cast<const T*>(value)); }));
  }
  /// All elements of what `function` makes of each: a Pipeline<U> or a std::vector<U>.
  template <std::invocable<T> F>
  auto flat_map(F function, const FlatMapOptions& options = {}) const;

  /// In a new order in each epoch: each next element is drawn from `window` elements. Without a window from all, whose makers,
  /// not their values, then are in memory.
  Pipeline shuffle(std::optional<std::int64_t> window = std::nullopt) const {
    return Pipeline(pipeline_nodes::shuffle(node_, window));
  }
  /// One pass after another, each in an order of its own. Default: without an end.
  Pipeline repeat(std::optional<std::int64_t> times = std::nullopt) const {
    return Pipeline(pipeline_nodes::repeat(node_, times));
  }
  /// The first ones.
  Pipeline take(std::int64_t elements) const { return Pipeline(pipeline_nodes::range(node_, 0, elements)); }
  /// All but the first ones.
  Pipeline skip(std::int64_t elements) const { return Pipeline(pipeline_nodes::range(node_, elements, std::nullopt)); }
  /// This rank's part: every world-size-th element. For elements that are expensive to pass over, such as compressed files.
  Pipeline shard() const { return Pipeline(pipeline_nodes::shard(node_)); }
  /// Makes so many elements ahead, in threads: before filter() and the steps by length, which need values.
  Pipeline prefetch(std::int64_t elements, int threads = 1) const {
    return Pipeline(pipeline_nodes::prefetch(node_, elements, threads));
  }

  /// So many in one: samples (Batch) are stacked to a Batch, others make a std::vector<T>.
  auto batch(std::int64_t samples, const PipelineBatchOptions& options = {}) const {
    return batch(samples, pipeline_types::stacked<T>, options);
  }
  /// `collate` makes one of them: U f(std::vector<T>) or U f(std::span<const T>).
  template <class F>
  requires(std::is_invocable_v<const F&, std::vector<T>>) auto batch(std::int64_t samples, F collate,
                                                                     const PipelineBatchOptions& options = {}) const {
    return Collected<F>(
        pipeline_nodes::batch(node_, samples, options.drop_last, pipeline_types::combine<T>(std::move(collate))));
  }
  /// As many in one as make `max_tokens` with their padding: the longest length times their number. `length`: int f(const T&),
  /// asked of every element, on each rank.
  template <class L, class F>
  auto batch_by_tokens(std::int64_t max_tokens, L length, F collate) const {
    return bucket_by_length({.boundaries = {}, .max_tokens = max_tokens, .max_samples = 0}, std::move(length),
                            std::move(collate));
  }
  /// The same among elements of similar lengths, so that little is padded. Those left over at the end make smaller batches.
  template <class L, class F>
  auto bucket_by_length(const BucketOptions& options, L length, F collate) const {
    return Collected<F>(pipeline_nodes::batch_by_length(
        node_, {.max_tokens = options.max_tokens, .max_samples = options.max_samples, .boundaries = options.boundaries},
        [length = std::move(length)](const void* value) -> std::int64_t { return length(*static_cast<const T*>(value)); },
        pipeline_types::combine<T>(std::move(collate))));
  }
  /// Sequences of tokens [n] one after another, cut into pieces of `length`: batches of one row, for model input of fixed
  /// size, with "tokens", "document" (which of the row's sequences a token is of, from 0) and "position" (in its sequence),
  /// each [length]. A last piece that is not full is left out.
  Pipeline<Batch> pack(std::int64_t length) const requires std::same_as<T, at::Tensor> {
    return Pipeline<Batch>(pipeline_nodes::pack(node_, length));
  }

  /// The elements of an epoch, outside of a Trainer.
  class Reader {
   public:
    explicit Reader(std::unique_ptr<PipelineReader> reader) : reader_(std::move(reader)) {}
    std::optional<T> next() {
      std::optional<PipelineElement> element = reader_->next();
      if (!element) return std::nullopt;
      return pipeline_types::taken<T>(element->take());
    }
    std::int64_t skip(std::int64_t elements) { return reader_->skip(elements); }

   private:
    std::unique_ptr<PipelineReader> reader_;
  };
  Reader read(const StreamEpoch& epoch = {}) const { return Reader(node_->open(epoch)); }

  const PipelineNodePtr& node() const { return node_; }

 private:
  template <class F>
  using Collected = Pipeline<std::invoke_result_t<const F&, std::vector<T>>>;

  PipelineNodePtr node_;
};

/// 0, 1, … size - 1.
inline Pipeline<std::int64_t> from_range(std::int64_t size) {
  return Pipeline<std::int64_t>(pipeline_nodes::indexed(
      size, [](std::int64_t index) { return pipeline_types::made(index); }, nullptr));
}

/// The values of a list.
template <class T>
Pipeline<T> from_list(std::vector<T> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Pipeline<T>(pipeline_nodes::indexed(
      size,
      [values = std::make_shared<const std::vector<T>>(std::move(values))](std::int64_t index) {
        return pipeline_types::made<T>((*values)[static_cast<std::size_t>(index)]);
      },
      nullptr));
}

/// The samples of a dataset, without a batch dimension.
LEVIN_API Pipeline<Batch> from_dataset(const DatasetPtr& dataset);

/// The paths of files, in alphabetical order: `pattern` as a shell takes it, such as "shards/*.tar"; or addresses, such as
/// "https://host/train-{000..099}.tar" and "s3://bucket/train-*.tar", which sources of levin open by local_copy(). Throws
/// ConfigError where a pattern names no file.
inline Pipeline<std::filesystem::path> from_files(const std::vector<std::string>& patterns) {
  return Pipeline<std::filesystem::path>(pipeline_nodes::files(patterns));
}
inline Pipeline<std::filesystem::path> from_files(const std::string& pattern) {
  return from_files(std::vector<std::string>{pattern});
}

/// The lines of a text file, which may be compressed by gzip or zstd, without their ends: what flat_map() takes for paths.
/// Throws IoError when it is read.
inline Pipeline<std::string> lines_of(const std::filesystem::path& file) {
  return Pipeline<std::string>(pipeline_nodes::lines(file));
}

/// Values that a function gives until it gives none: std::optional<T> f(Random&), which draws from the seed, the epoch and the
/// rank. Each rank calls its own, in all epochs the same one. A run that resumes within an epoch calls it again for what is
/// done.
template <class F>
auto from_function(F function) {
  using T = typename std::invoke_result_t<F&, Random&>::value_type;
  const auto shared = std::make_shared<F>(std::move(function));
  return Pipeline<T>(pipeline_nodes::generated([shared](const StreamEpoch& epoch) -> pipeline_nodes::Generate {
    return [shared, random = std::make_shared<Random>(rank_seed(epoch))]() -> PipelineValue {
      std::optional<T> value = (*shared)(*random);
      return value ? pipeline_types::made<T>(std::move(*value)) : nullptr;
    };
  }));
}

/// Options of mix().
struct LEVIN_API PipelineMixOptions {
  bool ends_with_first = false;  ///< end where the first pipeline ends; otherwise go on with the others
};

/// Elements of several pipelines, each next one drawn by their weights, which need not add up to 1.
template <class T>
Pipeline<T> mix(const std::vector<std::pair<Pipeline<T>, double>>& parts, const PipelineMixOptions& options = {}) {
  std::vector<PipelineNodePtr> nodes;
  std::vector<double> weights;
  for (const auto& [part, weight] : parts) {
    nodes.push_back(part.node());
    weights.push_back(weight);
  }
  return Pipeline<T>(pipeline_nodes::mix(std::move(nodes), std::move(weights), options.ends_with_first));
}

/// One element of each pipeline in turn.
template <class T>
Pipeline<T> interleave(const std::vector<Pipeline<T>>& parts, const PipelineMixOptions& options = {}) {
  std::vector<PipelineNodePtr> nodes;
  for (const auto& part : parts) nodes.push_back(part.node());
  return Pipeline<T>(pipeline_nodes::mix(std::move(nodes), {}, options.ends_with_first));
}

template <class T>
template <std::invocable<T> F>
auto Pipeline<T>::flat_map(F function, const FlatMapOptions& options) const {
  using Many = std::invoke_result_t<const F&, T>;
  const auto expand = [function = std::move(function)](const PipelineValue& value) -> PipelineNodePtr {
    if constexpr (pipeline_types::IsPipeline<Many>::value) {
      return function(pipeline_types::taken<T>(value)).node();
    } else {
      return from_list(function(pipeline_types::taken<T>(value))).node();
    }
  };
  if constexpr (pipeline_types::IsPipeline<Many>::value) {
    return Pipeline<typename pipeline_types::IsPipeline<Many>::Element>(
        pipeline_nodes::flat_map(node_, expand, options.at_once));
  } else {
    return Pipeline<typename Many::value_type>(pipeline_nodes::flat_map(node_, expand, options.at_once));
  }
}

/// The lines of text files: from_files(patterns).flat_map(lines_of); files on servers are downloaded ahead.
LEVIN_API Pipeline<std::string> from_lines(const std::vector<std::string>& patterns);
inline Pipeline<std::string> from_lines(const std::string& pattern) { return from_lines(std::vector<std::string>{pattern}); }

}  // namespace levin
