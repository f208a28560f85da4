#include "levin/data/row_blocks.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "levin/data/data_loader.h"
#include "levin/data/distributed_sampler.h"
#include "levin/data/pipeline_steps.h"

namespace levin {
namespace {

/// Groups that follow one another in an epoch's order.
struct Block {
  std::int64_t first = 0;  ///< among the epoch's groups
  std::int64_t groups = 0;
  std::int64_t rows = 0;
};

std::vector<std::int64_t> order_of(std::int64_t size, bool is_shuffled, std::uint64_t seed) {
  if (is_shuffled) return random_permutation(size, static_cast<std::int64_t>(seed));
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Gives groups in the order of an epoch: each is read when its value is needed.
class GroupReader final : public PipelineReader {
 public:
  GroupReader(std::shared_ptr<const GroupedRows> source, std::vector<std::int64_t> order)
      : source_(std::move(source)), order_(std::move(order)) {}
  std::optional<PipelineElement> next() override {
    if (next_ == std::ssize(order_)) return std::nullopt;
    const std::int64_t group = order_[static_cast<std::size_t>(next_++)];
    return PipelineElement(static_cast<std::uint64_t>(group),
                           [source = source_, group] { return pipeline_types::made(source->read(group)); });
  }
  std::int64_t skip(std::int64_t elements) override {
    const std::int64_t passed = std::min(elements, std::ssize(order_) - next_);
    next_ += passed;
    return passed;
  }

 private:
  std::shared_ptr<const GroupedRows> source_;
  std::vector<std::int64_t> order_;
  std::int64_t next_ = 0;
};

class RowBlocksNode final : public PipelineNode {
 public:
  RowBlocksNode(GroupedRows rows, const RowBlockOptions& options)
      : source_(std::make_shared<const GroupedRows>(std::move(rows))), options_(options) {}

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    const std::vector<std::int64_t>& rows_of = source_->rows_of_groups;
    constexpr std::int64_t kGroups = -1;  // besides the numbers of blocks
    std::vector<std::int64_t> order =
        order_of(std::ssize(rows_of), options_.shuffle, sample_seed(epoch.seed, epoch.epoch, kGroups));
    std::vector<Block> blocks;
    std::int64_t most_groups = 1;
    for (std::int64_t place = 0; place < std::ssize(order); ++place) {
      const std::int64_t rows = rows_of[static_cast<std::size_t>(order[static_cast<std::size_t>(place)])];
      if (blocks.empty() || blocks.back().rows + rows > options_.most_rows) blocks.push_back({.first = place});
      ++blocks.back().groups;
      blocks.back().rows += rows;
      most_groups = std::max(most_groups, blocks.back().groups);
    }
    std::unique_ptr<PipelineReader> groups = std::make_unique<GroupReader>(source_, order);
    if (options_.threads > 0) groups = read_ahead(std::move(groups), most_groups, options_.threads);
    return std::make_unique<Reader>(source_, options_.shuffle, epoch, std::move(order), std::move(blocks), std::move(groups));
  }
  PipelineFacts facts(const StreamEpoch& /*epoch*/) const override {
    const std::vector<std::int64_t>& rows = source_->rows_of_groups;
    return {.size = std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
            .shuffles = options_.shuffle,
            .draws = options_.shuffle ? 1U : 0U};
  }
  std::optional<std::uint64_t> fingerprint() const override {
    DataFingerprint fingerprint;
    fingerprint.add(static_cast<std::int64_t>(source_->fingerprint));
    // Other blocks are another order.
    fingerprint.add(options_.most_rows);
    fingerprint.add(std::span(source_->rows_of_groups));
    return fingerprint.value();
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(const std::shared_ptr<const GroupedRows>& source, bool is_shuffled, const StreamEpoch& epoch,
           std::vector<std::int64_t> order, std::vector<Block> blocks, std::unique_ptr<PipelineReader> groups)
        : source_(source),
          is_shuffled_(is_shuffled),
          epoch_(epoch),
          order_(std::move(order)),
          blocks_(std::move(blocks)),
          groups_(std::move(groups)) {
      std::int64_t rows = 0;
      for (const std::int64_t of_group : source_->rows_of_groups) {
        first_rows_.push_back(rows);
        rows += of_group;
      }
    }

    std::optional<PipelineElement> next() override {
      while (block_ < blocks_.size() && row_ == blocks_[block_].rows) end_block();
      if (block_ == blocks_.size()) return std::nullopt;
      if (in_memory_.empty()) read_block();
      const std::int64_t drawn = rows_[static_cast<std::size_t>(row_++)];
      const auto group = std::prev(std::ranges::upper_bound(starts_, drawn)) - starts_.begin();
      const auto place = static_cast<std::size_t>(group);
      const std::int64_t row = drawn - starts_[place];
      const std::int64_t of_all =
          first_rows_[static_cast<std::size_t>(order_[static_cast<std::size_t>(blocks_[block_].first + group)])] + row;
      return PipelineElement(static_cast<std::uint64_t>(of_all), pipeline_types::made(GroupRow{in_memory_[place], row}));
    }
    std::int64_t skip(std::int64_t elements) override {
      std::int64_t passed = 0;
      while (passed < elements && block_ < blocks_.size()) {
        const std::int64_t of_block = std::min(elements - passed, blocks_[block_].rows - row_);
        row_ += of_block;
        passed += of_block;
        if (passed < elements) end_block();
      }
      return passed;
    }

   private:
    void read_block() {
      const Block& block = blocks_[block_];
      starts_.clear();
      std::int64_t rows = 0;
      for (std::int64_t group = 0; group < block.groups; ++group) {
        in_memory_.push_back(read_group(block.groups - group - 1));
        starts_.push_back(rows);
        rows += source_->rows_of_groups[static_cast<std::size_t>(order_[static_cast<std::size_t>(block.first + group)])];
      }
      rows_ = order_of(rows, is_shuffled_, sample_seed(epoch_.seed, epoch_.epoch, static_cast<std::int64_t>(block_)));
    }
    /// One that cannot be read ends its block, with the groups that follow it there.
    std::shared_ptr<const Batch> read_group(std::int64_t following) {
      try {
        return std::make_shared<const Batch>(pipeline_types::taken<Batch>(groups_->next()->take()));
      } catch (...) {
        groups_->skip(following);
        in_memory_.clear();
        ++block_;
        row_ = 0;
        throw;
      }
    }
    void end_block() {
      if (in_memory_.empty()) groups_->skip(blocks_[block_].groups);
      in_memory_.clear();
      ++block_;
      row_ = 0;
    }

    std::shared_ptr<const GroupedRows> source_;
    bool is_shuffled_;
    StreamEpoch epoch_;
    std::vector<std::int64_t> order_;       ///< of the groups
    std::vector<std::int64_t> first_rows_;  ///< of each group, among all rows
    std::vector<Block> blocks_;
    std::unique_ptr<PipelineReader> groups_;
    std::size_t block_ = 0;
    std::int64_t row_ = 0;                                 ///< of the block, the next one
    std::vector<std::shared_ptr<const Batch>> in_memory_;  ///< the block's groups, once its first row is needed
    std::vector<std::int64_t> starts_;                     ///< of each, its first row in the block
    std::vector<std::int64_t> rows_;                       ///< of the block, in the order in which they are given
  };

  std::shared_ptr<const GroupedRows> source_;
  RowBlockOptions options_;
};

}  // namespace

Pipeline<GroupRow> rows_in_blocks(GroupedRows rows, const RowBlockOptions& options) {
  return Pipeline<GroupRow>(std::make_shared<RowBlocksNode>(std::move(rows), options));
}

Batch batch_of_rows(const std::vector<GroupRow>& rows) {
  Batch batch;
  for (const auto& [name, of_group] : rows.front().group->items()) {
    std::vector<std::int64_t> shape = of_group.sizes().vec();
    shape[0] = std::ssize(rows);
    at::Tensor values = at::empty(shape, of_group.options());
    const std::size_t bytes = rows.empty() ? 0 : values.nbytes() / rows.size();
    auto* to = static_cast<char*>(values.mutable_data_ptr());
    for (const GroupRow& row : rows) {
      const auto* const from = static_cast<const char*>((*row.group)[name].const_data_ptr());
      std::memcpy(to, from + static_cast<std::size_t>(row.row) * bytes, bytes);
      to += bytes;
    }
    batch.set(name, values);
  }
  return batch;
}

}  // namespace levin
