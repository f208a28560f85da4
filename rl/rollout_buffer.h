#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/options.h"
#include "levin/core/session.h"

namespace levin {

class Minibatches;

struct LEVIN_API RolloutBufferOptions {
  std::int64_t steps = 128;            ///< of each environment
  std::int64_t environments = 8;       ///< rows of a step
  double gamma = 0.99;                 ///< discount of a step
  double gae_lambda = 0.95;            ///< 1: returns without the values of later states, 0: the next state's value alone
  std::optional<std::int64_t> seed{};  ///< of the shuffles; default: that of seed_everything(), else 0

  static void declare(OptionList<RolloutBufferOptions>& options);
};

/// Steps that the current policy has taken, to train on once: with advantages by generalized advantage estimation (Schulman et
/// al. 2016, "High-dimensional continuous control using generalized advantage estimation").
///
///     levin::RolloutBuffer rollout({.steps = 32, .environments = 8});
///     session.keep("rollout", rollout.kept());
///     while (!rollout.is_full()) rollout.add({{"observation", observation}, {"action", action}, {"value", value}, …});
///     rollout.finish(last_value);
///     for (const levin::Batch& batch : rollout.minibatches(64, 10)) session.step(batch);
///
/// Random numbers are the buffer's own. Ranks: each has its own buffer. Threading: one thread at a time.
class LEVIN_API RolloutBuffer {
 public:
  using Options = RolloutBufferOptions;

  /// Throws ConfigError as checked() does.
  explicit RolloutBuffer(Options options = {});

  /// Adds a step: named tensors [environments, …], of which it has copies. The first call decides on names, shapes and types.
  /// Four have a meaning, each [environments]:
  /// - value: the critic's of the observation that was acted on
  /// - reward, terminated, truncated: as in VectorStep
  /// And one may be missing:
  /// - final_value: the critic's of VectorStep::next_observation, which counts where an episode was truncated. Needed there
  /// Throws MisuseError for other shapes and types, which it names, for a missing tensor, and when the buffer is full.
  void add(const Batch& rows);
  bool is_full() const { return filled_ == options_.steps; }
  std::int64_t size() const { return filled_; }  ///< steps
  /// Computes advantages and returns. `last_value` [environments]: the critic's of the observations after the last step. An
  /// advantage sums up no rewards beyond the end of its episode; where that was truncated, final_value stands for them, where
  /// it was terminated, nothing. Throws MisuseError unless the buffer is full, and for another shape.
  void finish(const at::Tensor& last_value);
  bool is_finished() const { return advantage_.defined(); }
  /// All rows, [steps · environments, …], with what was added but final_value, and two more, float:
  /// - advantage
  /// - return: advantage + value, what the critic is to learn
  /// In the order of steps, then of environments. Throws MisuseError before finish().
  Batch rows() const;
  /// The minibatches of `passes` passes over the rows, each in another order, for a range-based for. The last one of a
  /// pass has fewer rows where `size` does not divide them. After the last minibatch the buffer is empty. A loop that was left,
  /// or saved in a checkpoint, continues with the minibatch after: call clear() to drop the rest. Throws MisuseError before
  /// finish().
  Minibatches minibatches(std::int64_t size, std::int64_t passes = 1);
  /// The next one of these; nothing after the last, when the buffer is empty again.
  std::optional<Batch> next_minibatch(std::int64_t size, std::int64_t passes = 1);
  /// Drops all rows.
  void clear();

  /// For Session::keep(): rows, and the position and order of a pass under way. The object must outlive the session. Throws on
  /// loading ConfigError for a buffer of other sizes.
  KeptFunctions kept();

 private:
  struct Column {
    std::string name;
    at::Tensor rows;  ///< [steps, environments, …]
  };
  /// The stored tensor of this name, as contiguous floats on the CPU.
  at::Tensor numbers(const char* name) const;
  void make_storage(const Batch& rows);
  KeptState state() const;
  void set_state(const KeptState& state);

  Options options_;
  std::int64_t filled_ = 0;
  std::vector<Column> columns_;
  at::Tensor final_value_;  ///< [steps, environments], on the CPU
  at::Tensor advantage_;    ///< [steps, environments]; undefined before finish()
  at::Tensor return_;
  at::Tensor order_;  ///< of the pass
  std::int64_t pass_ = 0;
  std::int64_t position_ = 0;  ///< rows of the pass that are done
  std::uint64_t random_;       ///< state of RandomNumbers
};

/// RolloutBuffer::minibatches(): goes through once. The buffer must outlive it.
class LEVIN_API Minibatches {
 public:
  class LEVIN_API Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;

    explicit Iterator(const Minibatches& of) : of_(&of) { ++*this; }
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_ = of_->buffer_->next_minibatch(of_->size_, of_->passes_);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    const Minibatches* of_;
    std::optional<Batch> batch_;
  };
  Minibatches(RolloutBuffer& buffer, std::int64_t size, std::int64_t passes) : buffer_(&buffer), size_(size), passes_(passes) {}
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return std::default_sentinel; }

 private:
  RolloutBuffer* buffer_;
  std::int64_t size_;
  std::int64_t passes_;
};

}  // namespace levin
