#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/export.h"

namespace levin {

/// The small, CPU-only group over which ranks agree: metrics, votes, decisions. Gradients do not travel here.
/// Implemented over shared memory on one host, over Gloo between hosts, and by threads in the simulation.
///
/// Ranks: all, in the same order of calls. Ranks that come to different calls, or to all_gather with different numbers of
/// bytes, are a mistake: an implementation must not mix their bytes, and throws DesyncError on every rank, naming the call of
/// each. It throws DesyncError, too, when a rank is gone or does not come within the group's time limit. `what` says in that
/// error, and in the table of a stalled run, which meeting this is.
/// Threading: called by one thread of a rank at a time.
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
  /// What rank `root` has, of any length, on every rank; what others bring does not matter. Waits for all. More than `longest`
  /// bytes are a DesyncError on every rank.
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
/// Empty when all ranks are in the same call. Else, for a DesyncError, which each is in; with operations or sizes where nothing
/// else differs. `first_rank`: whose call comes first.
LEVIN_API std::string describe_different_calls(const std::vector<GroupCall>& by_rank, int first_rank = 0);
/// Empty unless a rank announces more than `longest` bytes in the gather or broadcast in which all are. Else, for a
/// DesyncError, which does.
LEVIN_API std::string describe_too_long(const std::vector<GroupCall>& by_rank, std::uint64_t longest, int first_rank = 0);

}  // namespace levin
