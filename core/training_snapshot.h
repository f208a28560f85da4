#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "levin/core/base/fwd.h"

namespace levin {

class Checkpoint;
class Trainer;

/// What training has come to, in memory, to go back to: weights and buffers of the module, optimizers with their learning
/// rates, learning-rate schedulers, and the scale of the loss under 16-mixed. Counters, random numbers, the place in the data
/// and what callbacks remember are not part of it.
///
/// Each rank keeps its own, on the device, without a word to others. Tensors are copied into the memory of the time before.
/// Called: in on_train_start, on_train_batch_start and on_train_batch_end.
class LEVIN_API TrainingSnapshot {
 public:
  enum class Parts : std::uint8_t { kAll, kBuffers };

  bool empty() const { return content_ == nullptr; }
  /// It has these parts, and no others.
  bool has(Parts parts) const;
  /// Takes what is now.
  void take(const Trainer& trainer, Parts parts = Parts::kAll);
  /// Takes the newest whole checkpoint of this fit, one that it goes on from included, as it stands on the disk. False where
  /// there is none. Ranks: all, and each reads the file.
  bool take_newest_checkpoint(const Trainer& trainer);
  /// Goes back to it; it stays. Schedulers that have come in place of those that there were go on as they are,
  /// with their rates. Throws ConfigError when parameters are in other groups by now.
  void restore(const Trainer& trainer) const;

  /// What was taken, and of a checkpoint all of it; null where nothing was.
  const Checkpoint* content() const { return content_.get(); }
  /// Puts it into a checkpoint, under names that begin with `prefix`, and takes it from there. Where ranks divide optimizers,
  /// nothing is put there, as rank 0, which writes, does not have it.
  void save(const Trainer& trainer, const std::string& prefix, Checkpoint& checkpoint) const;
  void load(const std::string& prefix, const Checkpoint& checkpoint);

 private:
  std::shared_ptr<const Checkpoint> content_;
  bool is_own_ = true;  ///< of this rank; a checkpoint is of all
};

}  // namespace levin
