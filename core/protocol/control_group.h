#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// The small, CPU-only group over which ranks exchange metrics, votes and decisions, but no gradients. Implemented over shared
/// memory on one host, over Gloo between hosts, and by threads in the simulation.
///
/// Ranks: all, in the same order of calls. When ranks make different calls, or call all_gather with different numbers of
/// bytes, an implementation must not mix their bytes, and throws a DesyncError on every rank that names the call of each. It
/// throws DesyncError, too, when a rank is gone or does not come within the group's time limit. `what` names the call in that
/// error, and in the table of a stalled run. Threading: one thread of a rank at a time.
class LEVIN_API ControlGroup {
 public:
  virtual ~ControlGroup();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Contributes `mine` and waits for all ranks; `all` receives size() * mine.size() bytes in the order of ranks.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) = 0;
  /// Contributes `mine`, of any length, and waits for all ranks. Rank 0 gets the parts of all in the order of ranks, the others
  /// get nothing. Throws DesyncError on every rank when one contributes more than `longest` bytes.
  virtual std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) = 0;
  /// Returns rank `root`'s text on every rank; the others' are ignored. Waits for all. More than `longest`: as gather().
  virtual std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) = 0;

 protected:
  /// Throws MisuseError unless `all` has exactly the size of all contributions.
  void check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const;
  /// Throws MisuseError unless there is such a rank.
  void check_root(int root, const char* what) const;
};

/// A group of one rank.
class LEVIN_API SingleProcessGroup final : public ControlGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;
  std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) override;
  std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) override;
};

/// The operations of a ControlGroup.
enum class GroupOperation : std::uint32_t { kAllGather, kGather, kBroadcast };

/// A rank's current call of a ControlGroup.
struct LEVIN_API GroupCall {
  GroupOperation operation = GroupOperation::kAllGather;
  std::string_view what;
  std::uint64_t bytes = 0;  ///< contributed by the rank
  std::int32_t root = 0;    ///< of a broadcast
  bool operator==(const GroupCall&) const = default;
};
/// Empty when all ranks are in the same call. Else the call of each, for a DesyncError. `first_rank`: the rank of the first.
LEVIN_API std::string describe_different_calls(const std::vector<GroupCall>& by_rank, int first_rank = 0);
/// Empty unless a rank announces more than `longest` bytes in the current gather or broadcast. Else names that rank.
LEVIN_API std::string describe_too_long(const std::vector<GroupCall>& by_rank, std::uint64_t longest, int first_rank = 0);

/// The requests of Trainer::request() to all ranks.
enum class RunCommand : std::uint8_t {
  kPause,           ///< after the step; ranks then wait for kContinue
  kContinue,        ///< ends a pause, or cancels kPause
  kSaveCheckpoint,  ///< after the step
  kValidate,        ///< after the step, as for val_check_interval
  kStopAfterEpoch,  ///< training ends with the current epoch
  kCancelStop       ///< cancels kStopAfterEpoch, on the rank that requested it
};

/// A rank's requests and reports to all at a step or a boundary. Unless noted, merging is a logical or.
struct LEVIN_API Votes {
  bool stop = false;                ///< should_stop
  bool end_epoch = false;           ///< skip the rest of this epoch
  bool has_next = true;             ///< training data: this rank has another batch after the current one; merged: any rank has
  std::int32_t signal = 0;          ///< number of a signal received (below 128), 0 for none; merged: the lowest rank's
  bool parameters_changed = false;  ///< the module's or optimizers' parameters differ from those that the ranks agreed on
  bool loss_is_bad = false;         ///< NaN or infinite, of a batch in the gradients of this reduction
  bool change_pause = false;        ///< starts or ends a pause
  bool save_checkpoint = false;     ///< RunCommand::kSaveCheckpoint
  bool validate = false;            ///< RunCommand::kValidate
  /// This rank's samples in the gradients of this reduction, or its batches where sizes are unknown. Merged: the sum.
  std::int32_t gradient_weight = 0;
  /// Batches per optimizer step on this rank, at most 65535: ranks compare them. Merged: the lowest rank's.
  std::int32_t accumulate_grad_batches = 0;
  friend bool operator==(const Votes&, const Votes&) = default;
};

/// Merges by-rank votes as Votes documents. Without votes: Votes{} with has_next false.
LEVIN_API Votes merge(const std::vector<Votes>& votes);

/// Packs votes into one word, for shared memory and frames. The top bit is always set, so that a word is never 0.
LEVIN_API std::uint64_t pack(const Votes& votes);
LEVIN_API Votes unpack_votes(std::uint64_t word);

/// A rank's published votes for a reduction.
struct LEVIN_API PublishedVotes {
  std::int64_t sequence = -1;
  std::uint64_t votes = 0;  ///< packed
};
/// The votes by rank. Throws DesyncError when one is not for reduction `sequence`, in which `own_rank` is.
LEVIN_API std::vector<Votes> unpack_votes(std::span<const PublishedVotes> by_rank, std::int64_t sequence, int own_rank);

/// Carries votes between boundaries without a separate collective: each rank publishes before a gradient reduction and reads
/// after it. Because a reduction ends on a rank only after it has started on every rank, all ranks read the same votes. On one
/// host a vote is one word of shared memory per rank; between hosts it is an element of a bucket.
class LEVIN_API VoteChannel {
 public:
  virtual ~VoteChannel();
  /// Called: before reduction number `sequence` (0, 1, 2, … the same on every rank) starts on this rank.
  virtual void publish(std::int64_t sequence, const Votes& votes) = 0;
  /// Called: after reduction number `sequence` has ended on this rank. Returns the votes published for it, by rank.
  virtual std::vector<Votes> read(std::int64_t sequence) = 0;
};

/// Votes that are exchanged separately: reading gathers them over the control group. Correct for every strategy; one whose
/// reductions already are a barrier can avoid it.
class LEVIN_API GatheredVoteChannel final : public VoteChannel {
 public:
  /// `group` outlives the channel.
  explicit GatheredVoteChannel(ControlGroup& group) : group_(group) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  ControlGroup& group_;
  PublishedVotes mine_;
};

/// The call site of an exchange: its name, and the reason why every rank reaches it. If one does not, all others wait.
class LEVIN_API ExchangeSite {
 public:
  /// `what`: "opening a logger". `every_rank`: completes "every rank comes here, since …". The table of a stalled run and
  /// errors show both: what a rank waits for, and which rule a missing rank has broken.
  ExchangeSite(const std::string& what, const std::string& every_rank);
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};

/// The first line in which a rank's text differs from rank 0's. The same on all ranks.
struct LEVIN_API RankDifference {
  int rank = 0;
  std::size_t line = 0;  ///< counted from 1
  std::string first;     ///< rank 0's; "nothing more" if its text has ended
  std::string other;     ///< that rank's

  /// "Rank 0 has `seed: 1`, rank 2 has `seed: 3` (line 4)"
  std::string str() const;
};

/// Exchanges values other than metrics for the runtime and callbacks. Outside of strategies and the protocol, ranks wait for
/// one another only here and at boundaries. A group of one exchanges nothing.
/// Ranks: all, for every method, in the same order. Throws DesyncError as ControlGroup does.
class LEVIN_API RankExchange {
 public:
  /// The longest text that a rank may announce, in bytes.
  static constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;

  explicit RankExchange(ControlGroup& group) : group_(group) {}

  /// Gathers a text of any bytes from each rank, by rank, on every rank. Two exchanges. More than `longest` bytes are an error
  /// on all.
  std::vector<std::string> gather_text(const std::string& mine, const ExchangeSite& site, std::uint64_t longest = kLongestText);
  /// The same for rank 0 only, such as the writer of a file; other ranks get no text. One exchange.
  std::vector<std::string> gather_text_to_rank_zero(const std::string& mine, const ExchangeSite& site,
                                                    std::uint64_t longest = kLongestText);
  /// Returns rank 0's text on every rank; the others' are ignored. One exchange.
  std::string broadcast_text(const std::string& mine, const ExchangeSite& site, std::uint64_t longest = kLongestText);
  /// Gathers every rank's bytes, in the order of ranks; each rank gives the same number. One exchange.
  std::vector<std::byte> gather_bytes(std::span<const std::byte> mine, const ExchangeSite& site);
  /// Gathers every rank's value, in the order of ranks. `Value` is plain bytes without pointers. One exchange.
  template <class Value>
  std::vector<Value> gather_values(const Value& mine, const ExchangeSite& site);
  /// Returns rank 0's value on every rank. One exchange.
  template <class Value>
  Value broadcast_value(const Value& mine, const ExchangeSite& site);

  /// Compares a text of all ranks. Unset when all are equal, with one exchange; else every rank's, by rank.
  std::optional<std::vector<std::string>> gather_if_different(const std::string& mine, const ExchangeSite& site);
  /// The same, but returns the first line that differs.
  std::optional<RankDifference> first_difference(const std::string& mine, const ExchangeSite& site);

 private:
  ControlGroup& group_;
};

template <class Value>
std::vector<Value> RankExchange::gather_values(const Value& mine, const ExchangeSite& site) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (group_.size() == 1) return {mine};
  std::vector<Value> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), site.text());
  return all;
}

template <class Value>
Value RankExchange::broadcast_value(const Value& mine, const ExchangeSite& site) {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value value = mine;
  auto* const bytes = reinterpret_cast<char*>(&value);
  broadcast_text(std::string(bytes, sizeof value), site, sizeof value).copy(bytes, sizeof value);
  return value;
}

}  // namespace levin
