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
/// Threading: called by one thread of a rank at a time.
class LEVIN_API ControlGroup {
 public:
  virtual ~ControlGroup();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks: all, in the same order of calls, each with the same number of bytes. Contributes `mine` and waits for everyone's;
  /// `all` receives size() * mine.size() bytes in the order of ranks.
  /// Ranks that come with different numbers of bytes are in different calls: an implementation must not mix their bytes, and
  /// throws DesyncError on every rank, naming `what` of each.
  /// Throws DesyncError when a rank is gone or does not come within the group's time limit. `what` says in that error, and in
  /// the table of a stalled run, which meeting this is.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) = 0;

 protected:
  /// Throws MisuseError unless `all` has room for exactly what size() ranks contribute.
  void check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const;
};

/// A group of one: every exchange is with oneself.
class LEVIN_API SingleProcessGroup final : public ControlGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;
};

/// The call of a ControlGroup that a rank has come to.
struct LEVIN_API GroupCall {
  std::string_view what;
  std::uint64_t bytes = 0;
  bool operator==(const GroupCall&) const = default;
};
/// Empty when all ranks are in the same call. Else, for a DesyncError, which each is in; with sizes where nothing else differs.
LEVIN_API std::string describe_different_calls(const std::vector<GroupCall>& by_rank);

}  // namespace levin
