#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "levin/data/pipeline_node.h"

namespace levin {

/// A step after another node.
class StepNode : public PipelineNode {
 public:
  explicit StepNode(PipelineNodePtr parent) : parent_(std::move(parent)) {}

 protected:
  const PipelineNode& parent() const { return *parent_; }
  const PipelineNodePtr& shared_parent() const { return parent_; }

 private:
  PipelineNodePtr parent_;
};

/// Every `step`-th element from `first` on.
class EveryNthReader final : public PipelineReader {
 public:
  EveryNthReader(std::unique_ptr<PipelineReader> reader, std::int64_t first, std::int64_t step)
      : reader_(std::move(reader)), before_(first), step_(step) {}
  std::optional<PipelineElement> next() override {
    if (reader_->skip(before_) < before_) return std::nullopt;
    before_ = step_ - 1;
    return reader_->next();
  }
  std::int64_t skip(std::int64_t elements) override {
    if (elements == 0) return 0;
    const std::int64_t wanted = before_ + 1 + (elements - 1) * step_;
    const std::int64_t passed = reader_->skip(wanted);
    const std::int64_t own = passed <= before_ ? 0 : (passed - before_ - 1) / step_ + 1;
    if (passed == wanted) before_ = step_ - 1;
    return own;
  }

 private:
  std::unique_ptr<PipelineReader> reader_;
  std::int64_t before_;  ///< elements of others before the next one
  std::int64_t step_;
};

/// How many of `all` a rank has, if each takes every world-size-th.
inline std::int64_t share_of(std::int64_t all, int rank, int world_size) {
  return all > rank ? (all - rank - 1) / world_size + 1 : 0;
}

/// Makes elements ahead in threads, and gives them in order.
std::unique_ptr<PipelineReader> read_ahead(std::unique_ptr<PipelineReader> reader, std::int64_t elements, int threads);

}  // namespace levin
