#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/data/pipeline.h"
#include "levin/data/pipeline_node.h"

namespace levin {

/// A step after another node.
class StepNode : public PipelineNode {
 public:
  explicit StepNode(PipelineNodePtr parent) : parent_(std::move(parent)) {}
  std::optional<std::uint64_t> fingerprint() const override { return parent_->fingerprint(); }

 protected:
  const PipelineNode& parent() const { return *parent_; }
  const PipelineNodePtr& shared_parent() const { return parent_; }

 private:
  PipelineNodePtr parent_;
};

/// What is known of elements that a step makes of others, in a number that only reading them tells.
inline PipelineFacts without_size(PipelineFacts facts) {
  facts.size.reset();
  facts.samples.reset();
  facts.batch_size.reset();
  return facts;
}

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

/// from_files(), which downloads those on servers ahead.
Pipeline<std::filesystem::path> from_files_ahead(const std::vector<std::string>& patterns);

/// Makes elements ahead in threads, and gives them in order.
std::unique_ptr<PipelineReader> read_ahead(std::unique_ptr<PipelineReader> reader, std::int64_t elements, int threads);

}  // namespace levin
