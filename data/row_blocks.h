#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "levin/core/batch.h"
#include "levin/data/pipeline.h"

namespace levin {

/// Rows that are read by groups.
struct GroupedRows {
  std::vector<std::int64_t> rows_of_groups = {};
  /// The rows of a group. Threading: any.
  std::function<Batch(std::int64_t group)> read = {};
  std::uint64_t fingerprint = 0;  ///< of the data
};

struct RowBlockOptions {
  /// Groups in a new order in each epoch, and rows within each block.
  bool shuffle = false;
  /// A block is as many groups, one after another, as have no more rows, and at least one. The rows of three are in memory at
  /// the same time: of one that is being used up, of the next one, and with `threads` of one that is read ahead.
  std::int64_t most_rows = 1;
  int threads = 0;  ///< that read ahead; 0: a block is read when its first row is needed
};

/// One row of a group that is in memory.
struct GroupRow {
  std::shared_ptr<const Batch> group;
  std::int64_t row = 0;
};

/// The rows of all groups, block by block. Blocks that are passed over are not read.
Pipeline<GroupRow> rows_in_blocks(GroupedRows rows, const RowBlockOptions& options);

/// Rows as one batch: collate function of Pipeline::batch().
Batch batch_of_rows(const std::vector<GroupRow>& rows);

}  // namespace levin
