#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "levin/core/protocol/metric_options.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// A metric that a rank knows of and the group does not.
struct NewMetric {
  Hook hook = Hook::kNone;
  std::int32_t dataloader_idx = -1;
  std::string name;
  MetricOptions options;
  std::string site;
  Slot step;
  Slot epoch;
};

/// What one rank tells the others in the second exchange.
struct NewMetrics {
  std::vector<NewMetric> metrics;
  std::string failure;  ///< why the rank cannot go on; empty when it can
};

std::vector<std::byte> pack(const NewMetrics& new_metrics);
/// Throws DesyncError when the bytes are not what pack() makes.
NewMetrics unpack_new_metrics(std::span<const std::byte> bytes);

/// A metric that the group agrees on now, with what each rank recorded of it.
struct MergedMetric {
  NewMetric metric;  ///< as the first rank that knows it describes it
  int first_rank = 0;
  std::vector<Slot> step;   ///< by rank
  std::vector<Slot> epoch;  ///< by rank
};

/// The union, in the order of ranks and then of each rank's own. Throws MisuseError, with the same text on every rank, when two
/// ranks log one key with different options; it names both call sites.
std::vector<MergedMetric> merge(const std::vector<NewMetrics>& by_rank);

}  // namespace levin::detail
