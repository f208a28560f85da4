#pragma once

#include <cstddef>
#include <vector>

#include "levin/core/logger.h"
#include "levin/core/state/section.h"

namespace levin {

/// How many rows loggers have received: in a resumed run they drop later ones.
///
///     logger_rows                    rows of all ranks together, by logger; -1: the logger does not count
///     ranks: R: rank_rows            rows of each rank alone
class LoggerRowSection final : public Section {
 public:
  LoggerRowSection() : Section("rows of loggers", {"logger_rows"}) {}

  void begin(TrainerState& run, Place place) override;
  bool is_with_weights() const override { return true; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void save_own(TrainerState& run, RankState& state) override;

  /// The rows that a logger had received, as far as the checkpoint knows.
  static RowCounts rows_of(const Checkpoint& checkpoint, int rank, std::size_t logger);

 private:
  std::vector<RowCounts> rows_;  ///< by logger
};

}  // namespace levin
