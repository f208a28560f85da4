#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/hook.h"
#include "levin/core/base/process_id.h"
#include "levin/core/console/terminal_guard.h"
#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/shared_file.h"

namespace levin::detail {

// Waits on a word of shared memory, across processes. A wait may end early without a reason: callers check again.

inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{static_cast<time_t>(seconds.count()), static_cast<long>((limit - seconds).count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

inline void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace levin::detail

namespace levin {

/// The cores of a rank. Plain bytes: ranks exchange it.
struct RankCores {
  std::uint64_t host = 0;  ///< equal for ranks under one kernel, which share core numbers
  cpu_set_t cores{};

  static RankCores own();
};

/// The cores of a host for the run's ranks on it. A launcher may have bound each rank to some of them.
struct HostCores {
  int ranks = 1;
  int cores = 1;  ///< on which any of these ranks may run
  int share = 1;  ///< of one rank, with shared cores divided; at least 1
};

HostCores cores_of_host(const std::vector<RankCores>& by_rank, int rank);

/// A counter in shared memory that processes raise and others wait for. It wraps around.
struct SharedCount {
  alignas(64) std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;  ///< processes that sleep on it

  /// Increments it, and wakes sleepers when it reaches `awaited`. A thread that sees the new number also sees all earlier
  /// writes.
  void raise(std::uint32_t awaited) {
    // Sequentially consistent, as is the sleeper's side: either we see the sleeper, or it sees the new number.
    if (value.fetch_add(1, std::memory_order_seq_cst) + 1 != awaited) return;
    if (sleepers.load(std::memory_order_seq_cst) > 0) detail::futex_wake_all(value);
  }
  bool has_reached(std::uint32_t number) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - number) >= 0;
  }
  /// Sleeps until the count is reached, or for `limit`; may end early.
  void sleep_until(std::uint32_t number, std::chrono::nanoseconds limit) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = value.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - number) < 0) detail::futex_wait(value, seen, limit);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
};

/// The size of a call's name.
inline constexpr std::size_t kCallTextBytes = 192;

/// A rank's call of a control group, for the others.
struct CallHeader {
  std::uint64_t bytes;
  std::uint32_t operation;  ///< a GroupOperation
  std::int32_t root;
  std::array<char, kCallTextBytes> what;

  void set(const GroupCall& call) noexcept;
  /// Refers to this text.
  GroupCall call() const;
};

/// One rank's side of a lane in shared memory, without its two buffers. Zero at first.
struct LaneSlot {
  SharedCount all_published;             ///< in the first slot: chunks of all ranks so far
  std::atomic<std::uint32_t> published;  ///< chunks so far
  std::array<CallHeader, 2> headers;     ///< by parity of the chunk's number
};

/// A set of keys, by their hashes, in the shared memory of a host's processes, zero at first. When it is full every key counts
/// as new: for warnings, one too many is better than one too few.
class SharedKeySet {
 public:
  /// True for the first process that inserts this hash. Never waits.
  bool insert(std::uint64_t hash) noexcept {
    if (hash == 0) hash = 1;  // 0 is an empty slot
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

// The layout of the shared memory of a run on one host. Every process maps the same bytes, zero at first. Atomics order
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

/// The last text that attempts of a run stored for later attempts. It has two slots, so that one stays whole while the other is
/// written: the writer, always rank 0, may be killed at any instant.
class RestartState {
 public:
  static constexpr std::size_t kLongest = 512 * 1024;
  /// False for a longer text, which is not stored.
  bool write(std::string_view text) noexcept;
  /// "" when nothing was stored.
  std::string read() const;

 private:
  struct Room {
    std::uint64_t length;
    std::array<char, kLongest> text;
  };
  std::array<Room, 2> rooms_;
  std::atomic<std::uint32_t> newest_;
};

/// What a rank that saves what it can after a failure gets in addition: a large checkpoint on a slow disk takes a while.
inline constexpr std::chrono::seconds kSavingGrace{60};

/// Everything one rank says. Only that rank writes it.
struct alignas(64) RankSlot {
  std::atomic<std::int32_t> process;  ///< 0 until the rank has joined
  std::atomic<std::uint64_t> process_start;
  std::array<std::atomic<std::uint64_t>, CPU_SETSIZE / 64> cores;  ///< on which it may run, as a cpu_set_t has them
  std::atomic<std::uint32_t> busy;            ///< inside an entry point: ending now is a failure, whatever the exit status
  std::atomic<std::uint32_t> explained;       ///< the rank says itself why it ends
  std::atomic<std::uint32_t> saving;          ///< after a failure: it saves what it can, which takes time
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
  Whereabouts where;
  bool is_final;
  bool is_lost;
  std::array<char, 16 * 1024> error;
};

struct alignas(64) SegmentHeader {
  std::uint64_t magic;
  std::uint64_t layout;  ///< size of a slot: detects programs of different builds
  std::int32_t ranks;
  std::int32_t first_rank;
  std::atomic<std::int32_t> launcher;  ///< process that supervises the ranks and records how they end; 0: none
  std::atomic<std::uint64_t> launcher_start;
  std::atomic<std::int64_t> stall_reported;  ///< when the last table of a stall was printed
  FailureSlot failure;
  RestartState restart_state;  ///< the launcher passes it to later attempts of the run
  SharedKeys keys;             ///< pressed in the launcher's terminal
  SharedKeySet warnings;       ///< the keys of printed warnings
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// The shared memory. It ends with the processes that use it: see SharedFile.
class RunSegment {
 public:
  /// For `ranks` ranks from `first_rank` on: those of this host. A child inherits it by descriptor(). Throws IoError.
  static std::shared_ptr<RunSegment> create(int ranks, int first_rank = 0);
  /// Joins memory that another process made. The descriptor stays open, to join again after an error, and is closed on exec.
  /// Throws IoError when it is not a segment of this levin.
  static std::shared_ptr<RunSegment> attach(int descriptor);
  /// The same, of an unrelated process: see SharedFile::open_at().
  static std::shared_ptr<RunSegment> open_at(const std::string& place);

  int descriptor() const { return file_.descriptor(); }
  std::string place() const { return file_.place(); }
  /// Its ranks: one host's, if launchers on several hosts start them, otherwise all.
  int first_rank() const { return header().first_rank; }
  int end_rank() const { return header().first_rank + header().ranks; }
  int ranks() const { return header().ranks; }
  bool has(int rank) const { return rank >= first_rank() && rank < end_rank(); }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(file_.data()); }
  RankSlot& slot(int rank) const;
  /// The process of a rank; number 0 while it has not joined.
  ProcessId process_of(int rank) const;
  /// The cores on which any of the ranks may run; unset while one has not joined.
  std::optional<int> cores() const;
  /// Registers this process as that rank: others then see when it ends.
  void join(int rank);
  /// Levin's launcher; number 0: none.
  ProcessId launcher() const;
  void set_launcher(const ProcessId& process);

 private:
  explicit RunSegment(SharedFile file) : file_(std::move(file)) {}
  static std::shared_ptr<RunSegment> checked(SharedFile file);

  SharedFile file_;
};

/// Now, in nanoseconds of CLOCK_MONOTONIC.
std::int64_t monotonic_nanoseconds();

/// How ranks exchange the location of their shared memory.
struct RankTexts {
  int rank = 0;
  /// Gathers every rank's text, in the order of ranks, on all.
  std::function<std::vector<std::string>(const std::string& mine)> gather;

  RankTexts(int own_rank, std::function<std::vector<std::string>(const std::string&)> gather_texts)
      : rank(own_rank), gather(std::move(gather_texts)) {}
  RankTexts(ControlGroup& group);
};

/// The shared memory of one host's ranks, for one host or several: rank `maker` makes it, and ranks that name the same maker
/// open it. Null on every rank when one of them fails; `failure` then says which, and why. Ranks: all. Throws as
/// RankTexts::gather() does.
std::optional<SharedFile> share_memory(const RankTexts& ranks, int maker, std::size_t bytes, std::string& failure);

/// The same for a segment of `size` ranks from rank `maker` on, which this process joins. `launched`: the segment of this
/// host's launcher; may be null, also on only some ranks. Null on every rank when one of them fails.
std::shared_ptr<RunSegment> share_segment(const RankTexts& ranks, int maker, int size, std::shared_ptr<RunSegment> launched,
                                          std::string& failure);

}  // namespace levin
