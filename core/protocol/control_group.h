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

/// The small, CPU-only group over which ranks agree: metrics, votes, decisions. Gradients do not travel here.
/// Implemented over shared memory on one host, over Gloo between hosts, and by threads in the simulation.
///
/// Ranks: all, in the same order of calls. Ranks that come to different calls, or to all_gather with different numbers of
/// bytes, are a mistake: an implementation must not mix their bytes, and throws DesyncError on every rank, naming the call of
/// each. It throws DesyncError, too, when a rank is gone or does not come within the group's time limit. `what` says in that
/// error, and in the table of a stalled run, which meeting this is. Threading: one thread of a rank at a time.
class LEVIN_API ControlGroup {
 public:
  virtual ~ControlGroup();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Contributes `mine` and waits for everyone's; `all` receives size() * mine.size() bytes in the order of ranks.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) = 0;
  /// Contributes `mine`, of any length, and waits for everyone's. Rank 0 gets the parts of all in the order of ranks, the
  /// others get nothing. A rank that comes with more than `longest` bytes is a DesyncError on every rank.
  virtual std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) = 0;
  /// What rank `root` has, on every rank; what others bring does not matter. Waits for all. More than `longest`: as gather().
  virtual std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) = 0;

 protected:
  /// Throws MisuseError unless `all` has room for exactly what size() ranks contribute.
  void check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const;
  /// Throws MisuseError unless there is such a rank.
  void check_root(int root, const char* what) const;
};

/// A group of one: every exchange is with oneself.
class LEVIN_API SingleProcessGroup final : public ControlGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;
  std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) override;
  std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) override;
};

/// What a ControlGroup is asked for.
enum class GroupOperation : std::uint32_t { kAllGather, kGather, kBroadcast };

/// The call of a ControlGroup that a rank has come to.
struct LEVIN_API GroupCall {
  GroupOperation operation = GroupOperation::kAllGather;
  std::string_view what;
  std::uint64_t bytes = 0;  ///< that the rank contributes
  std::int32_t root = 0;    ///< of a broadcast
  bool operator==(const GroupCall&) const = default;
};
/// Empty when all ranks are in the same call. Else which each is in, for a DesyncError. `first_rank`: whose call comes first.
LEVIN_API std::string describe_different_calls(const std::vector<GroupCall>& by_rank, int first_rank = 0);
/// Empty unless a rank announces more than `longest` bytes in the gather or broadcast in which all are. Else which does.
LEVIN_API std::string describe_too_long(const std::vector<GroupCall>& by_rank, std::uint64_t longest, int first_rank = 0);

/// What Trainer::request() asks of all ranks while they train.
enum class RunCommand : std::uint8_t {
  kPause,           ///< after the step; ranks then wait for kGoOn
  kGoOn,            ///< ends a pause, or takes kPause back
  kSaveCheckpoint,  ///< after the step
  kValidate,        ///< after the step, as where val_check_interval says so
  kStopAfterEpoch,  ///< training ends with the epoch under way
  kTrainOn          ///< takes kStopAfterEpoch back, on the rank that gave it
};

/// What one rank asks of all, or tells them, at a step or a boundary. Merged, a vote of any rank is everyone's.
struct LEVIN_API Votes {
  bool stop = false;                ///< should_stop
  bool end_epoch = false;           ///< skip the rest of this epoch
  bool has_next = true;             ///< training data: this rank has a batch after the one it works on; merged: any rank has
  std::int32_t signal = 0;          ///< number of a signal received (below 128), 0 for none; merged: the lowest rank's
  bool parameters_changed = false;  ///< the module or its optimizers have others than the ranks agreed on
  bool loss_is_bad = false;         ///< NaN or infinite, of a batch that is part of the gradients now reduced
  bool change_pause = false;        ///< training shall pause, or go on where it does
  bool save_checkpoint = false;     ///< RunCommand::kSaveCheckpoint
  bool validate = false;            ///< RunCommand::kValidate
  /// Of this rank's part in the gradients now reduced: its samples, or its batches where sizes are not known. Merged: the sum.
  std::int32_t gradient_weight = 0;
  /// Batches whose gradients make one step on this rank, at most 65535: ranks compare them. Merged: the lowest rank's.
  std::int32_t accumulate_grad_batches = 0;
  friend bool operator==(const Votes&, const Votes&) = default;
};

/// Merges by-rank votes into one, in the way that Votes documents. No votes at all: as Votes{} but without has_next.
LEVIN_API Votes merge(const std::vector<Votes>& votes);

/// Votes in one word, for shared memory and frames. The top bit is always set, so that a word is never 0.
LEVIN_API std::uint64_t pack(const Votes& votes);
LEVIN_API Votes unpack_votes(std::uint64_t word);

/// What a rank has published for a reduction, as it travels.
struct LEVIN_API PublishedVotes {
  std::int64_t sequence = -1;
  std::uint64_t votes = 0;  ///< packed
};
/// The votes by rank. Throws DesyncError when one of them is for another reduction than `sequence`, in which `own_rank` is.
LEVIN_API std::vector<Votes> unpack_votes(std::span<const PublishedVotes> by_rank, std::int64_t sequence, int own_rank);

/// Carries votes between boundaries without a collective of their own: each rank publishes before a gradient reduction and
/// reads after it. Since a reduction ends on a rank only after it has started on every rank, all ranks read the same votes for
/// the same reduction. One word of shared memory a rank on one host; an element in a bucket between hosts.
class LEVIN_API VoteChannel {
 public:
  virtual ~VoteChannel();
  /// Before reduction number `sequence` (0, 1, 2, … counted alike on every rank) starts on this rank.
  virtual void publish(std::int64_t sequence, const Votes& votes) = 0;
  /// After reduction number `sequence` has ended on this rank: what each rank published for it, by rank.
  virtual std::vector<Votes> read(std::int64_t sequence) = 0;
};

/// Votes that travel by themselves: reading is a meeting over the control group. Right for every manner of training; a strategy
/// whose reductions are a meeting already saves it this one.
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

/// One call in which all ranks meet, with the reason for which every rank comes to it: one that does not lets all others wait.
class LEVIN_API Meeting {
 public:
  /// `what`: "opening a logger". `every_rank`: completes "every rank comes here, since …". Both stand in the table of a stalled
  /// run and in errors, where they tell a person what a rank waits for and which rule a rank that is missing has broken.
  Meeting(const std::string& what, const std::string& every_rank);
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};

/// The first line in which a rank's text differs from rank 0's. The same on all ranks.
struct LEVIN_API RankDifference {
  int rank = 0;
  std::size_t line = 0;  ///< counted from 1
  std::string first;     ///< rank 0's; "nothing more" where its text ends before
  std::string other;     ///< that rank's

  /// "Rank 0 has `seed: 1`, rank 2 has `seed: 3` (line 4)"
  std::string str() const;
};

/// How the runtime and callbacks exchange what is no metric: everything outside of strategies and the protocol that waits for
/// other ranks goes through here or through a boundary. A group of one exchanges nothing.
/// Ranks: all, for every method, in the same order. Throws DesyncError, as ControlGroup's do.
class LEVIN_API RankExchange {
 public:
  /// The longest text that a rank may announce, in bytes.
  static constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;

  explicit RankExchange(ControlGroup& group) : group_(group) {}

  /// A text of any bytes from each rank, by rank, on every rank. Two exchanges. More than `longest` bytes are an error on all.
  std::vector<std::string> gather_text(const std::string& mine, const Meeting& meeting, std::uint64_t longest = kLongestText);
  /// The same for what only rank 0 needs, as the writer of a file does: on other ranks no text at all. One exchange.
  std::vector<std::string> gather_text_to_rank_zero(const std::string& mine, const Meeting& meeting,
                                                    std::uint64_t longest = kLongestText);
  /// Rank 0's text, on every rank; what others give does not matter. One exchange.
  std::string broadcast_text(const std::string& mine, const Meeting& meeting, std::uint64_t longest = kLongestText);
  /// Every rank's bytes, one after another; each rank gives as many. One exchange.
  std::vector<std::byte> gather_bytes(std::span<const std::byte> mine, const Meeting& meeting);
  /// Every rank's value, in the order of ranks. `Value` is plain bytes without pointers. One exchange.
  template <class Value>
  std::vector<Value> gather_values(const Value& mine, const Meeting& meeting);
  /// Rank 0's value, on every rank. One exchange.
  template <class Value>
  Value broadcast_value(const Value& mine, const Meeting& meeting);

  /// Compares a text of all ranks: one exchange when all have the same. Else every rank's, by rank.
  std::optional<std::vector<std::string>> gather_if_different(const std::string& mine, const Meeting& meeting);
  /// The same, with the first line that differs.
  std::optional<RankDifference> first_difference(const std::string& mine, const Meeting& meeting);

 private:
  ControlGroup& group_;
};

template <class Value>
std::vector<Value> RankExchange::gather_values(const Value& mine, const Meeting& meeting) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (group_.size() == 1) return {mine};
  std::vector<Value> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), meeting.text());
  return all;
}

template <class Value>
Value RankExchange::broadcast_value(const Value& mine, const Meeting& meeting) {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value value = mine;
  auto* const bytes = reinterpret_cast<char*>(&value);
  broadcast_text(std::string(bytes, sizeof value), meeting, sizeof value).copy(bytes, sizeof value);
  return value;
}

}  // namespace levin
