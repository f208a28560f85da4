#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "levin/core/protocol/boundary.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// The first part of every frame. Its layout is fixed; docs/protocol.md describes it.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x4e56454c;  // "LEVN"
  static constexpr std::uint32_t kVersion = 3;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  BoundaryKind kind = BoundaryKind::kSetup;
  Stage stage = Stage::kTrain;
  Hook hook = Hook::kNone;  ///< what the rank was doing when it came
  std::uint8_t failed = 0;  ///< the rank cannot go on; what it sends next says why
  std::uint32_t slots = 0;  ///< room for so many slots follows
  std::uint64_t votes = 0;  ///< packed, see votes.h
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t sequence = 0;  ///< how many boundaries this rank has met before
  std::uint64_t agreed_hash = 0;
  std::uint64_t new_metrics_bytes = 0;  ///< size of this rank's part of the second exchange; 0 on all ranks: there is none
  std::int64_t batches = 0;             ///< this rank's batches since the last boundary of this level
  BoundaryPayload payload{};

  Boundary boundary() const { return {kind, stage, epoch, step}; }
};
static_assert(sizeof(FrameHeader) == 104);

/// "the end of an epoch of validate (epoch 1, step 40)".
std::string describe(const Boundary& boundary);

/// Throws DesyncError, with the same text on every rank, unless all ranks are in the same boundary with the same agreement. The
/// text names each boundary, its ranks, their hooks, epoch and step.
void require_same_boundary(const std::vector<FrameHeader>& headers);

/// A metric that a rank knows of and the group does not.
struct NewMetric {
  Hook hook = Hook::kNone;
  std::int32_t dataloader_idx = -1;
  std::string name;
  MetricOptions options;
  std::string site;
  Slot step;
  Slot epoch;
  std::vector<double> step_numbers{};  ///< of a metric object, as its ObjectLayout says
  std::vector<double> epoch_numbers{};
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
  std::vector<Slot> step;                          ///< by rank
  std::vector<Slot> epoch;                         ///< by rank
  std::vector<std::vector<double>> step_numbers;   ///< by rank
  std::vector<std::vector<double>> epoch_numbers;  ///< by rank
};

/// The union, in the order of ranks and then of each rank's own. Throws MisuseError, with the same text on every rank, when two
/// ranks log one key with different options; it names both call sites.
std::vector<MergedMetric> merge(const std::vector<NewMetrics>& by_rank);

}  // namespace levin::detail
