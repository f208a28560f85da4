#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "levin/core/batch_loader.h"

namespace levin::test {

/// A loader that gives the same few batches each epoch.
class FixedLoader : public BatchLoader {
 public:
  FixedLoader(std::vector<Batch> batches, bool knows_size = true) : batches_(std::move(batches)), knows_size_(knows_size) {}
  /// `batches` batches of `batch_size` rows of two numbers each, all different.
  static std::shared_ptr<FixedLoader> of_rows(std::int64_t batches, std::int64_t batch_size, bool knows_size = true) {
    std::vector<Batch> made;
    for (std::int64_t index = 0; index < batches; ++index) {
      const at::Tensor rows = torch::arange(index * batch_size * 2, (index + 1) * batch_size * 2, torch::kFloat);
      made.push_back(Batch{{"rows", rows.reshape({batch_size, 2}) / 100}});
    }
    return std::make_shared<FixedLoader>(std::move(made), knows_size);
  }
  std::optional<std::int64_t> size() const override {
    return knows_size_ ? std::optional(static_cast<std::int64_t>(batches_.size())) : std::nullopt;
  }
  void start_epoch(std::int64_t) override { next_ = 0; }
  std::optional<Batch> next() override { return next_ < batches_.size() ? std::optional(batches_[next_++]) : std::nullopt; }

 private:
  std::vector<Batch> batches_;
  bool knows_size_;
  std::size_t next_ = 0;
};

}  // namespace levin::test
