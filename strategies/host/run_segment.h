#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "levin/strategies/failure/process_state.h"
#include "levin/strategies/host/lane_slot.h"
#include "levin/strategies/host/shared_file.h"

namespace levin {

/// A set of keys, by their hashes, that the processes of a host share; lies in shared memory, zero at first. When it is full
/// every key counts as new: for warnings, one too many is better than one too few.
class SharedKeySet {
 public:
  /// True for the first process that inserts this hash. Never waits.
  bool insert(std::uint64_t hash) noexcept {
    if (hash == 0) hash = 1;  // 0 is an empty place
    for (std::atomic<std::uint64_t>& place : places_) {
      std::uint64_t before = 0;
      if (place.compare_exchange_strong(before, hash)) return true;
      if (before == hash) return false;
    }
    return true;
  }

 private:
  std::array<std::atomic<std::uint64_t>, 256> places_;
};

// What lies in the shared memory of a run on one host. Every process maps the same bytes, zero at first. Atomics order
// everything else; a text that may be read while it is written consists of atomic words.

/// Of the control group.
inline constexpr std::size_t kChunkBytes = 64 * 1024;

/// A short text that others may read at any time. A reader may see the mix of two texts for a moment, never bytes out of
/// bounds.
class SharedText {
 public:
  void write(const char* text) noexcept;
  std::string read() const;

 private:
  std::array<std::atomic<std::uint64_t>, kCallTextBytes / 8> words_;
};

/// Everything one rank says. Only that rank writes it.
struct alignas(64) RankSlot {
  std::atomic<std::int32_t> process;  ///< 0 until the rank has joined
  std::atomic<std::uint64_t> process_start;
  std::array<std::atomic<std::uint64_t>, CPU_SETSIZE / 64> cores;  ///< on which it may run, as a cpu_set_t has them
  std::atomic<std::uint32_t> busy;            ///< inside an entry point: ending now is a failure, whatever the exit status
  std::atomic<std::uint32_t> explained;       ///< the rank says itself why it ends
  std::atomic<std::uint32_t> failed_alike;    ///< with the very error of the rank that failed first
  std::atomic<std::uint32_t> device_missing;  ///< started again, it found that its device is gone
  std::atomic<std::uint32_t> entered;         ///< an entry point has begun
  std::atomic<std::uint32_t> trained;         ///< a training batch has ended

  std::atomic<std::uint32_t> where_version;  ///< odd while the next five are being written
  std::atomic<std::uint32_t> stage;
  std::atomic<std::uint32_t> hook;
  std::atomic<std::int64_t> epoch;
  std::atomic<std::int64_t> step;
  std::atomic<std::int64_t> where_since;  ///< nanoseconds of CLOCK_MONOTONIC, which all processes of a host share

  std::atomic<std::int64_t> waiting_since;  ///< 0: not waiting for other ranks
  SharedText waiting_in;
  std::atomic<std::int64_t> reductions;     ///< gradient reductions started
  std::atomic<std::uint32_t> in_reduction;  ///< the last of them has not ended

  std::array<std::atomic<std::int64_t>, 2> vote_sequence;  ///< by parity of the sequence; counted from 1, 0 is none
  std::array<std::atomic<std::uint64_t>, 2> votes;

  LaneSlot control;  ///< this rank's side of the control group, whose chunks follow
  std::array<std::array<std::byte, kChunkBytes>, 2> control_chunks;
};

struct FailureSlot {
  enum : std::uint32_t { kNone = 0, kBeingWritten = 1, kWritten = 2 };
  std::atomic<std::uint32_t> state;  ///< a futex
  std::int32_t rank;
  std::uint32_t stage;
  std::uint32_t hook;
  std::int64_t epoch;
  std::int64_t step;
  std::uint32_t is_final;
  std::uint32_t is_lost;
  std::array<char, 16 * 1024> error;
};

struct alignas(64) SegmentHeader {
  std::uint64_t magic;
  std::uint64_t layout;  ///< size of a slot: programs of different builds do not fit together
  std::int32_t ranks;
  std::int32_t first_rank;
  std::atomic<std::int32_t> launcher;  ///< process that supervises the ranks and writes down how they end; 0: none
  std::atomic<std::uint64_t> launcher_start;
  std::atomic<std::int64_t> stall_reported;  ///< when the last table of a stall was printed
  FailureSlot failure;
  SharedKeySet warnings;  ///< the keys of those that one of the ranks has printed
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// The shared memory itself. Nothing of it outlives the processes that use it: see SharedFile.
class RunSegment {
 public:
  /// For `ranks` ranks from `first_rank` on: those of this host. A child inherits it by descriptor(). Throws IoError.
  static std::shared_ptr<RunSegment> create(int ranks, int first_rank = 0);
  /// Joins memory that another process made. The descriptor stays open, for who joins again after an error, and is closed on
  /// exec. Throws IoError when it is no segment of this levin.
  static std::shared_ptr<RunSegment> attach(int descriptor);
  /// The same, of a process that is no relative: see SharedFile::open_at().
  static std::shared_ptr<RunSegment> open_at(const SharedFilePlace& place);

  int descriptor() const { return file_.descriptor(); }
  SharedFilePlace place() const { return file_.place(); }
  /// The ranks that it is for: one host's, where a launcher on each of several hosts starts them, and otherwise all.
  int first_rank() const { return header().first_rank; }
  int end_rank() const { return header().first_rank + header().ranks; }
  int ranks() const { return header().ranks; }
  bool has(int rank) const { return rank >= first_rank() && rank < end_rank(); }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(file_.data()); }
  RankSlot& slot(int rank) const;
  /// The process of a rank; number 0 while it has not joined.
  ProcessId process_of(int rank) const;
  /// On how many cores one or another of the ranks may run; nothing while one has not joined.
  std::optional<int> cores() const;
  /// This process is that rank: from now on others see when it ends.
  void join(int rank);
  /// Our own launcher; number 0 where there is none.
  ProcessId launcher() const;
  void set_launcher(const ProcessId& process);

 private:
  explicit RunSegment(SharedFile file) : file_(std::move(file)) {}
  static std::shared_ptr<RunSegment> checked(SharedFile file);

  SharedFile file_;
};

/// Now, in nanoseconds of CLOCK_MONOTONIC.
std::int64_t monotonic_nanoseconds();

}  // namespace levin
