#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "levin/core/base/fwd.h"

namespace levin {

class Checkpoint;
class Trainer;

/// An in-memory snapshot of training for a rollback: weights and buffers of the module, optimizers with their learning rates,
/// learning-rate schedulers, and the scale of the loss under 16-mixed. It lacks counters, random numbers, the position in the
/// data and the state of callbacks.
///
/// Each rank has its own, on the device, without communication. Each take() reuses the memory of the previous one. Called: in
/// on_train_start, on_train_batch_start and on_train_batch_end.
class LEVIN_API TrainingSnapshot {
 public:
  enum class Parts : std::uint8_t { kAll, kBuffers };

  bool empty() const { return content_ == nullptr; }
  /// It has exactly these parts.
  bool has(Parts parts) const;
  /// Takes the current state.
  void take(const Trainer& trainer, Parts parts = Parts::kAll);
  /// Takes the newest whole checkpoint of this fit from disk, or the one that it resumed from. False where there is none.
  /// Ranks: all, and each reads the file.
  bool take_newest_checkpoint(const Trainer& trainer);
  /// Restores it; the snapshot stays valid. Schedulers that replaced those of the snapshot continue unchanged, with their
  /// rates. Throws ConfigError when the parameter groups have changed.
  void restore(const Trainer& trainer) const;

  /// The snapshot; a checkpoint in full; null when empty.
  const Checkpoint* content() const { return content_.get(); }
  /// Saves it in a checkpoint, under names that begin with `prefix`, and loads it. Where optimizers are divided over ranks,
  /// nothing is saved, because rank 0, which writes, lacks the other parts.
  void save(const Trainer& trainer, const std::string& prefix, Checkpoint& checkpoint) const;
  void load(const std::string& prefix, const Checkpoint& checkpoint);

 private:
  std::shared_ptr<const Checkpoint> content_;
  bool is_own_ = true;  ///< of this rank; a checkpoint belongs to all
};

}  // namespace levin
