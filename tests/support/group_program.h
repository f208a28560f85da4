#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"

namespace levin::testing {

/// How one rank deviates from the program of the others.
enum class GroupFault { kNone, kOtherOperation, kOtherRoot, kOtherWhat, kTooLong, kDies, kEndsWell };
inline constexpr int kGroupFaults = 7;

/// A sequence of calls of a control group by some ranks, in one of which one rank may deviate. The seed determines all of it.
/// Contributions of ranks differ in length, up to some dozen times `unit` bytes.
class GroupProgram {
 public:
  GroupProgram(std::uint64_t seed, int ranks, GroupFault fault, std::size_t unit = 1);

  /// Throws std::logic_error when a call gives a wrong result; std::runtime_error when the rank must die.
  void run(ControlGroup& group) const;
  /// What the text of a rank's error must contain when all have reached the call; empty if it has none.
  std::vector<std::string> expected_error() const;

  int faulty_rank() const { return faulty_rank_; }
  std::size_t calls() const { return calls_.size(); }
  /// The call with the fault.
  std::size_t faulty_call() const { return faulty_call_; }

 private:
  struct Call {
    GroupOperation operation = GroupOperation::kAllGather;
    int root = 0;
    std::string what;
    std::string str() const;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint64_t>(limit)); }
  void deviate();
  std::string content(std::size_t call, int rank, GroupOperation operation) const;
  void make(ControlGroup& group, const Call& call, std::size_t number, const std::string& mine) const;

  std::mt19937_64 random_;
  int ranks_;
  GroupFault fault_;
  std::size_t unit_;
  std::vector<Call> calls_;
  int faulty_rank_ = 0;
  std::size_t faulty_call_ = 0;
  Call deviation_;
};

}  // namespace levin::testing
