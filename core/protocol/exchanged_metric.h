#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// A metric at a boundary that carries it, at one level. It is made once, when the rank reaches the boundary: what the rank
/// announces of the metric and what it sends is `own`, and what all ranks have sent is read back into it.
struct ExchangedMetric {
  MetricEntry* entry;
  Level level;
  MetricPayload own{};                                 ///< this rank's
  const std::vector<std::string>* own_rows = nullptr;  ///< of an object: their sizes are in own.numbers; null: none are sent
  std::vector<MetricPayload> payloads{};               ///< by rank
  std::vector<std::vector<std::string>> rows{};        ///< by rank: of an object, the lists of rows; see rows_are_known
  bool rows_are_known = false;                         ///< all ranks have them from before, in entry->all_ranks

  bool any_present() const;
  /// For an object: so that make_payload() of several waits once.
  void send_for_state() const;
  /// Makes `own`: for a step only new values, for the step's row or an earlier decision. Waits for values on a device. Throws
  /// what computing an object's values throws.
  void make_payload(BoundaryKind kind);
  /// Sends nothing, for a rank whose values cannot be read.
  void clear_payload();
};

/// What all ranks exchanged at a boundary. Identical on all ranks, except the own parts.
struct Exchanged {
  std::vector<FrameHeader> headers;      ///< by rank
  std::vector<ExchangedMetric> metrics;  ///< what this boundary carries, in the agreed order

  std::size_t ranks() const { return headers.size(); }
};

}  // namespace levin::detail
