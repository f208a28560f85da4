#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "levin/core/base/hook.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_table.h"

namespace levin {

/// Points of the loop that every rank reaches in the same order.
enum class BoundaryKind : std::uint8_t {
  kSetup,          ///< start of an entry point: configuration and parameters are compared
  kEpochStart,     ///< lengths of the loaders are agreed; after the hooks of an epoch's start, whether parameters have changed,
                   ///< and what batch a rank begins with
  kBatch,          ///< before a batch, when lengths are unknown and gradients accumulate: which ranks have a batch
  kTrainStep,      ///< a training step on which step metrics are due
  kDecision,       ///< something is decided on a metric between the boundaries of steps and epochs: step values, and no row
  kEpochReached,   ///< the last batch of an epoch is done, before the epoch-end hooks
  kEpochEnd,       ///< the epoch-end hooks of callbacks and module are done, before monitoring callbacks and loggers
  kEvaluationEnd,  ///< an evaluation and its monitors are done: votes count at once
  kPause,          ///< repeated by paused ranks: whether to continue
  kCheckpoint,     ///< a checkpoint is written; no metrics, so that saving changes nothing
  kSessionCall,    ///< what the caller of each rank's Session asks for, before ranks do it together
  kEnd             ///< end of an entry point
};

/// Which boundary this is. Ranks that meet with different ones have diverged: DesyncError on all, naming both.
struct Boundary {
  BoundaryKind kind = BoundaryKind::kSetup;
  Stage stage = Stage::kTrain;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

/// Numbers that ranks exchange at a boundary, such as a loader's batches; the boundary's kind defines them.
using BoundaryPayload = std::array<std::int64_t, 7>;

/// What every rank knows after a boundary. `votes`, `rank_votes`, `payloads` and `rank_rows` are identical on all ranks.
struct BoundaryOutcome {
  Votes votes;                            ///< merged over ranks
  std::vector<Votes> rank_votes;          ///< by rank
  std::vector<BoundaryPayload> payloads;  ///< by rank
  MetricMap logger_row;                   ///< values to be written by rank 0's loggers, per_rank columns included
  MetricMap local_row;                    ///< this rank's own unreduced values of the same keys, for loggers of every rank
  std::vector<MetricMap> rank_rows;       ///< by rank: each rank's unreduced values of the same keys
};

namespace detail {

/// The first part of every frame. Its layout is fixed; docs/internals/protocol.md describes it.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x4e56454c;  // "LEVN"
  static constexpr std::uint32_t kVersion = 5;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  BoundaryKind kind = BoundaryKind::kSetup;
  Stage stage = Stage::kTrain;
  Hook hook = Hook::kNone;  ///< what the rank was doing when it came
  std::uint8_t failed = 0;  ///< the rank has failed; its second message says why
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
static_assert(sizeof(FrameHeader) == 128);

/// "the end of an epoch of validate (epoch 1, step 40)".
std::string describe(const Boundary& boundary);

/// Throws DesyncError, with the same text on every rank, unless all ranks are in the same boundary with the same agreement. The
/// text names each boundary, its ranks, their hooks, epoch and step.
void require_same_boundary(const std::vector<FrameHeader>& headers);

/// A rank's values of a metric at a step or epoch, as frames carry them.
struct MetricPayload {
  Slot slot;                      ///< of a metric object: object_slot()
  std::vector<double> numbers{};  ///< of a metric object, as its ObjectLayout says; none where the slot is not present

  /// Bytes of each list of rows.
  std::span<const double> sizes_of_rows(const ObjectLayout& layout) const { return part(layout.numbers, layout.rows); }
  /// The values of the rank's own state.
  std::span<const double> values(const ObjectLayout& layout) const {
    return part(std::size_t{layout.numbers} + layout.rows, layout.values);
  }

 private:
  std::span<const double> part(std::size_t begin, std::size_t count) const {
    return numbers.empty() ? std::span<const double>() : std::span(numbers).subspan(begin, count);
  }
};

/// The slot of a metric object. Its value is the number of updates of the state. Its weight, which a state does not need,
/// encodes whether the object was logged, and whether the rank still has the rows of all ranks from the last exchange and sent
/// all of its own then.
Slot object_slot(bool is_logged, std::int64_t updates, bool knows_rows);
bool knows_rows(const Slot& slot);

void append_payload(std::vector<std::byte>& frame, const MetricPayload& payload, const MetricEntry& entry);
MetricPayload read_payload(ByteReader& frame, const MetricEntry& entry);

/// A metric that a rank knows and the group does not.
struct NewMetric {
  Hook hook = Hook::kNone;
  std::int32_t dataloader_idx = -1;
  std::string name;
  MetricOptions options;
  ObjectLayout layout;  ///< of a metric object
  std::string site;
  LoaderOfMetric loader;
  MetricPayload step;
  MetricPayload epoch;

  MetricPayload& payload(Level level) { return level == Level::kStep ? step : epoch; }
  const MetricPayload& payload(Level level) const { return level == Level::kStep ? step : epoch; }
};

/// A rank's message in the second exchange.
struct NewMetrics {
  std::vector<NewMetric> metrics;
  std::string failure;  ///< why the rank has failed; empty: it has not
};

std::vector<std::byte> pack(const NewMetrics& new_metrics);
/// Throws DesyncError when the bytes are not what pack() makes.
NewMetrics unpack_new_metrics(std::span<const std::byte> bytes);

/// A metric that the group agrees on now, as each rank describes it, by rank; null for one that does not know it.
using MergedMetric = std::vector<const NewMetric*>;

/// The lowest rank that knows it.
std::size_t first_rank_of(const MergedMetric& metric);
/// The union, in the order of ranks and then of each rank's own. Throws MisuseError, with the same text on every rank, when two
/// ranks log one key with different options, or different metric objects; it names both call sites. `by_rank` outlives the
/// result.
std::vector<MergedMetric> merge(const std::vector<NewMetrics>& by_rank);

}  // namespace detail
}  // namespace levin
