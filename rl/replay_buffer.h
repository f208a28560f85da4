#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/options.h"
#include "levin/core/session.h"

namespace levin {

/// At least one of capacity and max_bytes.
struct LEVIN_API ReplayBufferOptions {
  std::optional<std::int64_t> capacity{};   ///< in transitions; unset: as many as fit into max_bytes
  std::optional<std::int64_t> max_bytes{};  ///< of memory; unset: no bound
  double priority_exponent = 0;             ///< α of Schaul et al.: how much priorities count; 0: not at all
  double importance_exponent = 0.4;         ///< β of theirs: how much weights correct for that; 1: fully
  std::optional<std::int64_t> seed{};       ///< default: that of seed_everything(), else 0

  static void declare(OptionList<ReplayBufferOptions>& options);
};

/// The newest transitions, to draw from: uniformly, or in proportion to priorities (Schaul et al. 2016, "Prioritized experience
/// replay", the proportional variant).
///
///     levin::ReplayBuffer replay({.capacity = 100'000});
///     session.keep("replay", replay.kept());
///     replay.add({{"observation", observation}, {"action", action}, {"reward", step.reward}});
///     if (replay.is_ready(64)) session.step(replay.sample(64));
///
/// Memory is taken with the first add(), all at once, on the device of its tensors. Random numbers are the buffer's own. Ranks:
/// each has its own buffer. Threading: one thread at a time.
class LEVIN_API ReplayBuffer {
 public:
  using Options = ReplayBufferOptions;

  /// Throws ConfigError as checked() does.
  explicit ReplayBuffer(Options options);
  ~ReplayBuffer();
  ReplayBuffer(const ReplayBuffer&) = delete;
  ReplayBuffer& operator=(const ReplayBuffer&) = delete;

  /// Adds transitions, one per row: named tensors [n, …] of one n, whose copies replace the oldest. With priorities, they get
  /// the largest one so far, 1 at first. The first call decides on names, shapes and types. Throws MisuseError for others,
  /// which it names, and ConfigError, with the number of transitions that fit, when the capacity takes more than max_bytes.
  void add(const Batch& rows);
  /// Draws transitions, with replacement. With priorities there is one from each of `count` equal parts of their sum, and two
  /// more tensors:
  /// - index [count]: for update_priorities(), until the next add()
  /// - weight [count], float: (size · P)^-β over the batch's largest, for the loss
  /// Throws MisuseError when the buffer is empty.
  Batch sample(std::int64_t count);
  /// Sets the priorities of transitions, such as |TD error| + 1e-6: finite, above 0, of the shape of `index`. The last one
  /// counts where an index comes twice. Throws MisuseError.
  void update_priorities(const at::Tensor& index, const at::Tensor& priority);
  /// β from here on: it usually grows to 1 during training.
  void set_importance_exponent(double exponent);

  std::int64_t size() const { return size_; }
  /// In transitions; 0: not known before the first add().
  std::int64_t capacity() const { return capacity_; }
  /// That the storage takes; 0 before the first add().
  std::int64_t bytes() const;
  /// Has at least so many transitions.
  bool is_ready(std::int64_t transitions) const { return size_ >= transitions; }

  /// For Session::keep(): transitions, priorities and random numbers. The object must outlive the session. Throws on loading
  /// ConfigError for a buffer of another capacity, or with priorities in one of the two only.
  KeptFunctions kept();

 private:
  struct Column {
    std::string name;
    at::Tensor rows;  ///< [capacity, …]
  };
  struct Priorities;

  void make_storage(const Batch& rows);
  void set_priority(std::int64_t index, double priority);
  KeptState state() const;
  void set_state(const KeptState& state);

  Options options_;
  std::int64_t capacity_ = 0;
  std::int64_t size_ = 0;
  std::int64_t next_ = 0;  ///< the row that the next transition gets
  std::vector<Column> columns_;
  std::unique_ptr<Priorities> priorities_;  ///< null: uniform
  std::uint64_t random_;                    ///< state of RandomNumbers
};

}  // namespace levin
