#pragma once

#include <optional>
#include <utility>

#include "levin/core/batch_loader.h"

namespace levin {

/// The training data of a Session: batches that its caller gives, one for each iteration.
class SteppedLoader final : public BatchLoader {
 public:
  /// The batch of the next iteration.
  void give(Batch batch) {
    batch_size_ = batch.batch_size();
    batch_ = std::move(batch);
  }
  /// Whether this rank takes part in iterations with a batch, or without.
  void set_has_next(bool has_next) { has_next_ = has_next; }
  void drop() { batch_.reset(); }

  std::optional<std::int64_t> size() const override { return std::nullopt; }
  /// Of the newest batch.
  std::optional<std::int64_t> batch_size() const override { return batch_size_; }
  void start_epoch(std::int64_t /*epoch*/) override {}
  std::optional<bool> has_next() const override { return has_next_; }
  std::optional<Batch> next() override { return std::exchange(batch_, std::nullopt); }
  /// A run that resumes inside an epoch asks for none of the finished batches.
  bool is_interactive() const override { return true; }

 private:
  std::optional<Batch> batch_;
  std::optional<std::int64_t> batch_size_;
  bool has_next_ = true;
};

}  // namespace levin
