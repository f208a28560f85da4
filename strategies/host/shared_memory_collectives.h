#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/host/shared_lane.h"

namespace levin {

/// Shared memory of the ranks of one host: a part for each, which all read and write.
class SharedParts {
 public:
  SharedParts(SharedFile memory, int ranks)
      : memory_(std::move(memory)), bytes_(memory_.bytes() / static_cast<std::size_t>(ranks)) {}
  std::byte* of(int rank) const { return memory_.data() + static_cast<std::size_t>(rank) * bytes_; }

 private:
  SharedFile memory_;
  std::size_t bytes_;  ///< of a part
};

/// Collectives of the ranks of one host, on bytes of any length: each call moves them in chunks through shared memory, and
/// returns when this rank's part is done. Results are the same bits on every rank, and in every run: values are combined in the
/// order of ranks.
///
/// Ranks: all, in the same order of calls. Errors, which every later call throws again, are those of PeerWaits, and DesyncError
/// on every rank when ranks came with different calls or sizes. `what` of a call: its name and type; ranks with different texts
/// are in different calls.
class SharedMemoryCollectives {
 public:
  /// Combines `elements` values of each part, in the order of parts, into `result`, which is not a part.
  using Combine = void (*)(std::byte* result, std::span<const std::byte* const> parts, std::size_t elements);
  struct Values {
    std::span<std::byte> bytes;
    std::size_t element_bytes;  ///< at most 64
    Combine combine;
  };

  /// Bytes of shared memory that `ranks` ranks need.
  static std::size_t memory_bytes(int ranks);
  /// `memory`: the same for all ranks of the segment, memory_bytes() long, zero at first. The rest as in PeerWaits.
  SharedMemoryCollectives(SharedFile memory, std::shared_ptr<RunSegment> segment, std::shared_ptr<StatusBoard> board,
                          double timeout_seconds, WaitingThread thread = WaitingThread::kOwn);

  /// This rank among those of the segment, counted from 0. Ranks are counted so in all that follows.
  int rank() const { return waits_.index(); }
  int size() const { return waits_.size(); }

  /// Replaces every rank's values by the combined values of all.
  void all_reduce(const Values& values, const char* what);
  /// Memory that the other ranks read in the next all_reduce_window(). It changes with each of these.
  std::span<std::byte> window() const { return {window_of(rank()), chunk_bytes_}; }
  /// `result` receives the combined values at the beginning of all windows: an all_reduce() without copies. No longer than a
  /// window.
  void all_reduce_window(const Values& result, const char* what);
  /// Parts of at least `bytes` each, which live as long as a rank holds them. Null on every rank if one cannot have them.
  std::shared_ptr<const SharedParts> share_parts(std::size_t bytes, const char* what);
  /// Replaces every part by the combined values of all: an all_reduce() without copies. `values`: of this rank's part.
  void all_reduce_parts(const SharedParts& parts, const Values& values, const char* what);
  /// all[r] receives rank r's bytes, as many as `mine`.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte* const> all, const char* what);
  /// Replaces every rank's bytes by rank `root`'s.
  void broadcast(std::span<std::byte> bytes, int root, const char* what);
  /// `result` receives this rank's share of the combined values: rank r's share is the r-th part of that length. The last
  /// shares are padded with zeros.
  void reduce_scatter(std::span<const std::byte> values, const Values& result, const char* what);
  /// The reverse: `values` receives each rank's share, as long as `mine`.
  void all_gather_shares(std::span<const std::byte> mine, std::span<std::byte> values, const char* what);
  /// Ends the call that a thread is in, and every later one, as PeerWaits::give_up() does. Threading: any thread.
  void give_up() noexcept { waits_.give_up(); }

 private:
  /// Processes `bytes` of a call in pieces of up to `piece_bytes`: `step(offset, length)`, once also for none.
  template <class Step>
  static void in_pieces(std::size_t bytes, std::size_t piece_bytes, const Step& step);
  /// Passes every rank's bytes to all: `take(rank, offset, bytes)`, in pieces.
  template <class Take>
  void gather(std::span<const std::byte> mine, const char* what, const Take& take);
  /// Publishes what own_buffer() holds, and waits for the others'.
  void publish_and_wait(const char* what, std::size_t total_bytes, bool is_first);
  std::byte* window_of(int rank) const;
  /// Sets the last chunks as sources.
  void take_chunks();
  /// The beginning of a rank's part of so many bytes, when each combines one.
  std::size_t begin_of_share(int rank, std::size_t length) const;
  /// Combines [begin, end) of `sources_`.
  void combine(std::byte* result, const Values& values, std::size_t begin, std::size_t end);
  /// Combines the first `length` bytes of `sources_`, on every rank.
  void combine_on_all(std::byte* result, std::size_t length, const Values& all, const char* what);

  PeerWaits waits_;
  SharedFile memory_;
  std::size_t chunk_bytes_;
  SharedLane lane_;
  std::size_t windows_reduced_ = 0;
  std::vector<const std::byte*> sources_;  ///< by rank
  std::vector<const std::byte*> parts_;    ///< of combine()
  std::vector<std::byte> block_;           ///< of all_reduce_parts(), made by its first call
};

}  // namespace levin
