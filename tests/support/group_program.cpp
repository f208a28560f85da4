#include "support/group_program.h"

#include <array>
#include <stdexcept>

namespace levin::testing {

namespace {

/// The most that a rank may contribute, in units.
constexpr std::size_t kLongest = 20;

}  // namespace

std::string GroupProgram::Call::str() const {
  const std::array<std::string, 3> names = {"all_gather", "gather", "broadcast from rank " + std::to_string(root)};
  return what + " (" + names.at(static_cast<std::size_t>(operation)) + ")";
}

GroupProgram::GroupProgram(std::uint64_t seed, int ranks, GroupFault fault, std::size_t unit)
    : random_(seed), ranks_(ranks), fault_(fault), unit_(unit), calls_(static_cast<std::size_t>(below(12) + 1)) {
  for (Call& call : calls_) {
    call = {static_cast<GroupOperation>(below(3)), below(ranks), "call_" + std::to_string(below(3))};
  }
  faulty_rank_ = below(ranks);
  faulty_call_ = static_cast<std::size_t>(below(static_cast<int>(calls_.size())));
  deviate();
}

void GroupProgram::deviate() {
  Call& call = calls_[faulty_call_];
  if (fault_ == GroupFault::kOtherRoot) call.operation = GroupOperation::kBroadcast;
  if (fault_ == GroupFault::kOtherWhat || fault_ == GroupFault::kTooLong) {
    // Frames of boundaries identify themselves: the simulation lets other all_gathers of equally many bytes pass.
    call.operation = below(2) == 0 ? GroupOperation::kGather : GroupOperation::kBroadcast;
  }
  if (fault_ == GroupFault::kTooLong) call.root = faulty_rank_;
  deviation_ = call;
  if (fault_ == GroupFault::kOtherOperation) {
    deviation_.operation = static_cast<GroupOperation>((static_cast<int>(call.operation) + 1 + below(2)) % 3);
  }
  if (fault_ == GroupFault::kOtherRoot) deviation_.root = (call.root + 1) % ranks_;
  if (fault_ == GroupFault::kOtherWhat) deviation_.what += "!";
}

std::string GroupProgram::content(std::size_t call, int rank, GroupOperation operation) const {
  const std::size_t own = operation == GroupOperation::kAllGather ? 0 : static_cast<std::size_t>(rank);
  return std::string((call * 5 + own * 3) % 11 * unit_, static_cast<char>('a' + (call + static_cast<std::size_t>(rank)) % 26));
}

void GroupProgram::make(ControlGroup& group, const Call& call, std::size_t number, const std::string& mine) const {
  const auto require = [&](bool holds) {
    if (!holds) throw std::logic_error("call " + std::to_string(number) + ", " + call.str() + ", gave something else");
  };
  std::vector<std::string> contents;
  for (int rank = 0; rank < ranks_; ++rank) contents.push_back(content(number, rank, call.operation));
  const std::uint64_t longest = kLongest * unit_;
  switch (call.operation) {
    case GroupOperation::kAllGather: {
      std::string all(mine.size() * contents.size(), '?');
      group.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), call.what.c_str());
      std::string expected;
      for (const std::string& part : contents) expected += part;
      return require(all == expected);
    }
    case GroupOperation::kGather:
      if (group.rank() != 0) contents.clear();
      return require(group.gather(mine, longest, call.what.c_str()) == contents);
    case GroupOperation::kBroadcast:
      return require(group.broadcast(mine, call.root, longest, call.what.c_str()) ==
                     contents[static_cast<std::size_t>(call.root)]);
  }
}

void GroupProgram::run(ControlGroup& group) const {
  for (std::size_t number = 0; number < calls_.size(); ++number) {
    const bool deviates = fault_ != GroupFault::kNone && group.rank() == faulty_rank_ && number == faulty_call_;
    if (deviates && fault_ == GroupFault::kDies) throw std::runtime_error("died on purpose");
    if (deviates && fault_ == GroupFault::kEndsWell) return;
    const Call& call = deviates ? deviation_ : calls_[number];
    std::string mine = content(number, group.rank(), call.operation);
    if (deviates && fault_ == GroupFault::kTooLong) mine.resize(kLongest * unit_ + 1);
    make(group, call, number, mine);
  }
}

std::vector<std::string> GroupProgram::expected_error() const {
  if (fault_ == GroupFault::kNone || fault_ == GroupFault::kDies || fault_ == GroupFault::kEndsWell) return {};
  if (fault_ == GroupFault::kTooLong) {
    return {"rank " + std::to_string(faulty_rank_) + " announces " + std::to_string(kLongest * unit_ + 1) + " bytes in ",
            "where the limit is " + std::to_string(kLongest * unit_)};
  }
  std::vector<std::string> texts = {"ranks met in different calls:"};
  for (int rank = 0; rank < ranks_; ++rank) {
    const Call& call = rank == faulty_rank_ ? deviation_ : calls_[faulty_call_];
    texts.push_back("\n  rank " + std::to_string(rank) + ": " + (fault_ == GroupFault::kOtherWhat ? call.what : call.str()));
  }
  return texts;
}

}  // namespace levin::testing
