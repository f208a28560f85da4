#include "levin/strategies/distributed/gloo_control_group.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/protocol/peer_limits.h"
#include "levin/strategies/processes/peer_errors.h"

namespace levin {

namespace {

/// The first part of each exchange, as long on every rank: which call this is, and behind it the bytes, where they fit.
struct FrameHead {
  std::uint64_t total_bytes = 0;
  std::array<char, 192> what{};
};

/// How many bytes fit. Each rank gets the frames of all: with many of them a frame has room for a boundary with few metrics
/// only.
std::size_t room_in_frame(std::size_t ranks) {
  constexpr std::size_t kLeast = 512;
  constexpr std::size_t kMost = 3072;
  constexpr std::size_t kOfAll = 64 * kMost;
  return std::clamp(kOfAll / ranks, kLeast, kMost);
}

/// Seconds between looks at what other ranks have posted, while waiting for them.
constexpr double kSecondsBetweenLooks = 1.0;
/// How long messages of a rank that has failed meanwhile may still arrive.
constexpr auto kLastMessages = std::chrono::milliseconds(200);

}  // namespace

GlooControlGroup::GlooControlGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board,
                                   double timeout_seconds)
    : gloo_(std::move(gloo)), board_(std::move(board)), timeout_seconds_(timeout_seconds) {}

void GlooControlGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (broken_) std::rethrow_exception(broken_);
  const auto ranks = static_cast<std::size_t>(size());
  check_sizes(mine, all, what);
  board_->end_reduction();
  board_->post_waiting(what);
  FrameHead head;
  head.total_bytes = mine.size();
  std::strncpy(head.what.data(), what, head.what.size() - 1);
  const bool fits = mine.size() <= room_in_frame(ranks);
  std::vector<std::byte> frame(sizeof head + room_in_frame(ranks));
  std::memcpy(frame.data(), &head, sizeof head);
  if (fits && !mine.empty()) std::memcpy(frame.data() + sizeof head, mine.data(), mine.size());
  std::vector<std::byte> frames(ranks * frame.size());
  exchange(frame, frames, what);

  std::vector<FrameHead> heads(ranks);
  std::vector<GroupCall> calls;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    std::memcpy(&heads[peer], frames.data() + peer * frame.size(), sizeof head);
    calls.push_back({text_in(heads[peer].what), heads[peer].total_bytes});
  }
  if (const std::string different = describe_different_calls(calls); !different.empty()) fail(different);
  if (!fits) {
    exchange(mine, all, what);
  } else if (!mine.empty()) {
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      std::memcpy(all.data() + peer * mine.size(), frames.data() + peer * frame.size() + sizeof head, mine.size());
    }
  }
  board_->post_waiting(nullptr);
}

void GlooControlGroup::exchange(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  // Gloo's work keeps these tensors alive when this rank gives up waiting for it.
  const auto make = [&] { return torch::empty({static_cast<std::int64_t>(mine.size())}, torch::kUInt8); };
  std::vector<at::Tensor> input = {make()};
  std::memcpy(input[0].data_ptr(), mine.data(), mine.size());
  std::vector<std::vector<at::Tensor>> output(1);
  for (int peer = 0; peer < size(); ++peer) output[0].push_back(make());
  try {
    const auto work = gloo_->allgather(output, input);
    wait_for(*work, what);
    work->wait();
  } catch (const ConnectionLost& error) {
    // Not reported yet: its cause is looked for first (see report_own_failure).
    end_with(ConnectionLost(format("lost the other ranks in {}: {}", what, error.what()), error.closed_by_peer()));
  }
  for (std::size_t peer = 0; peer < output[0].size(); ++peer) {
    std::memcpy(all.data() + peer * mine.size(), output[0][peer].const_data_ptr(), mine.size());
  }
}

void GlooControlGroup::wait_for(c10d::Work& work, const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  auto pause = std::chrono::microseconds(20);
  double next_look = kSecondsBetweenLooks;
  std::chrono::steady_clock::time_point failed_since{};
  while (!work.isCompleted()) {
    if (const auto failure = board_->failure()) {
      // What the failed rank sent before may be on its way, and say more to this rank than the failure does.
      if (failed_since.time_since_epoch().count() == 0) failed_since = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - failed_since > kLastMessages) end_with(RecordedFailure(failure->str()));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > next_look) {
      next_look = seconds + kSecondsBetweenLooks;
      if (const auto other = board_->rank_in_later_reduction()) {
        fail(different_calls(rank(), what, *other, format("a step that rank {} has not begun", rank())));
      }
    }
    if (seconds > timeout_seconds_) {
      board_->report_stall(format("waited {} s in {}", static_cast<int>(seconds), what));
      if (const auto failure = board_->failure()) end_with(RecordedFailure(failure->str()));
      fail("timeout_seconds");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
}

void GlooControlGroup::fail(const std::string& text) {
  board_->report_failure({rank(), board_->own_whereabouts(), text});
  end_with(DesyncError(text));
}

void GlooVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  const auto options = torch::TensorOptions().dtype(torch::kInt64);
  mine_ = {torch::tensor({sequence, static_cast<std::int64_t>(pack(votes))}, options)};
  all_ = {{}};
  for (int rank = 0; rank < board_->size(); ++rank) all_[0].push_back(torch::empty({2}, options));
  work_ = gloo_->allgather(all_, mine_);
}

std::vector<Votes> GlooVoteChannel::read(std::int64_t sequence) {
  board_->end_reduction();
  if (!work_) throw MisuseError(format("votes of gradient reduction {} are read but were not published", sequence));
  work_->wait();
  work_.reset();
  std::vector<PublishedVotes> by_rank;
  for (const at::Tensor& words : all_[0]) {
    const auto* word = words.const_data_ptr<std::int64_t>();
    by_rank.push_back({word[0], static_cast<std::uint64_t>(word[1])});
  }
  return unpack_votes(by_rank, sequence, board_->rank());
}

}  // namespace levin
